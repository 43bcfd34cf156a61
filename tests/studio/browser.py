"""A browser under test: Debian's Chromium through chromedriver, spoken to in plain WebDriver (W3C) without other packages."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"tab": "\ue004", "enter": "\ue007", "escape": "\ue00c", "space": " "}


class Browser:
    """One window. Every wait has a limit that a busy machine keeps, and no test depends on how soon something comes."""

    def __init__(self, width=1360, height=900, dark=False, patience=60):
        self.patience = patience
        self.profile = tempfile.mkdtemp(prefix="studio-browser-")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.session = None
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     f"--window-size={width},{height}", f"--user-data-dir={self.profile}", "--force-device-scale-factor=1", "--hide-scrollbars"]
            wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL"}}
            answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.session = f"/session/{answer['sessionId']}"
            self.prefer("dark" if dark else "light")
            self._cdp("Emulation.setDeviceMetricsOverride",
                      {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip(".\n").rsplit(" ", 1)[1])
        raise RuntimeError("chromedriver did not start")

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def _cdp(self, command, params):
        return self._ask("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": params})

    def prefer(self, scheme):
        """Prefers a colour scheme: light or dark."""
        self._cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, url):
        self._ask("POST", f"{self.session}/url", {"url": url})

    def run(self, script, *arguments):
        """Runs a script in the page; its value comes back as JSON."""
        return self._ask("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def run_until_called(self, script, *arguments):
        """Runs a script that calls its last argument with its value when it is done."""
        return self._ask("POST", f"{self.session}/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, what=None):
        """Waits until the script gives something that is true, and returns that."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.05)
        text = self.run("return document.body.innerText.slice(0, 3000)")
        raise AssertionError(f"not in {self.patience} s: {what or script}\nthe page says:\n{text}")

    def see(self, text):
        """Waits for a text on the page."""
        return self.wait("return document.body.innerText.includes(arguments[0])", text, what=f"text '{text}'")

    def go(self, place):
        """Goes to a page of the studio and waits for it."""
        name = place.strip("/").split("/")[0]
        self.run("""document.getElementById('page').dataset.page = '';
            const place = '#/' + arguments[0];
            if (location.hash === place) dispatchEvent(new Event('hashchange')); else location.hash = place;""", place)
        self.wait("return document.getElementById('page').dataset.page === arguments[0]", name, what=f"page {place}")

    def click(self, selector):
        self.wait("const it = document.querySelector(arguments[0]); if (!it || it.disabled) return false; it.click(); return true",
                  selector, what=f"{selector} to click on")

    def fill(self, selector, value):
        """Fills in a field as typing does."""
        self.wait("""const it = document.querySelector(arguments[0]); if (!it) return false;
            it.value = arguments[1]; it.dispatchEvent(new Event('input', {bubbles: true}));
            it.dispatchEvent(new Event('change', {bubbles: true})); return true""", selector, value, what=selector)

    def press(self, *keys):
        """Presses keys, one after the other."""
        pressed = []
        for key in keys:
            value = KEYS.get(key, key)
            pressed += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._ask("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": pressed}]})

    def complaints(self):
        """What the browser's console says of errors: scripts that fail, and what the content policy refused."""
        entries = self._ask("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def picture(self, path):
        """Keeps the whole page as a picture."""
        size = self._cdp("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        shot = self._cdp("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            if self.session:
                self._ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(30)
            shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
