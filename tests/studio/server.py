"""A studio under test, in a folder of its own."""

import json
import subprocess
import urllib.error
import urllib.request


class Studio:
    """A studio that does not outlive its use."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, "studio", "--listen", "127.0.0.1:0", "--folder", folder, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        text = ""
        for line in self.process.stdout:
            text += line
            if line == "}\n":
                break
        said = json.loads(text)
        self.url, self.token, self.address = said["url"], said["token"], said["address"]
        self.base = f"http://{self.address}"

    def ask(self, method, path, body=None, token=True):
        """The status and the JSON of an answer."""
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def close(self):
        """Ends it as Ctrl-C does, with all that it started; returns its exit code."""
        self.process.terminate()
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
