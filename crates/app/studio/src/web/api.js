// Calls of the API. The token stands behind the # of the address that the studio printed; it is kept for this tab and taken
// out of the address bar.
const KEY = "raidlab-token";

export function takeToken() {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", "#/");
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEY));

export class Fault extends Error {
  constructor(error) {
    super(error.what);
    Object.assign(this, error);
  }
}

async function answer(response) {
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const body = isJson ? await response.json() : await response.text();
  if (response.ok) return body;
  throw new Fault(body?.error ?? { status: response.status, what: "the studio did not answer as it should", where: response.url, what_to_do: "try again" });
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Fault({ status: 0, what: "the studio does not answer", where: location.host, what_to_do: "start it again with 'raidlab studio' and open the address that it prints" });
  }
  return answer(response);
}

export const get = (path) => ask(path, {});

export const post = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` },
    body: JSON.stringify(body),
  });

export const command = async (path, body) => (await post(path, { ...body, dry_run: true })).command;
