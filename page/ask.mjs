// Asks the server. Only this file keeps the token: in memory or, if the operator chooses so, in the tab's session
// storage. No cookie or address has it.

/** Its name in the tab's session storage. */
const KEPT_TOKEN = "headgate token";
/** Longest wait for an answer. */
const ANSWER_MS_MAX = 10_000;

/** @typedef {"token missing" | "token wrong" | "refused" | "not there" | "bad question" | "away"} Why */

/** The server did not answer, or refused. */
export class NoAnswer extends Error {
  /** @param {Why} why @param {string} says */
  constructor(why, says) {
    super(says);
    this.why = why;
  }
}

/**
 * Tells the server that a proxy is in front of it, even if the proxy adds no header; the server then requires a token.
 * @param {{ readonly pathname: string, readonly hostname: string, readonly host: string }} location
 * @returns {Record<string, string>}
 */
export function proxyHeaders({ pathname, hostname, host }) {
  const isLocal = /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
  return {
    ...(pathname === "/" ? {} : { "x-forwarded-prefix": pathname }),
    ...(isLocal ? {} : { "x-forwarded-host": host }),
  };
}

/** The guarded pages of the server that the page came from. */
export class Server {
  /** @type {string | undefined} */
  #token = sessionStorage.getItem(KEPT_TOKEN) ?? undefined;

  /** @param {string | undefined} token @param {boolean} keeps until the tab is closed */
  useToken(token, keeps = false) {
    this.#token = token;
    if (token !== undefined && keeps) sessionStorage.setItem(KEPT_TOKEN, token);
    else sessionStorage.removeItem(KEPT_TOKEN);
  }

  get hasToken() {
    return this.#token !== undefined;
  }

  /**
   * Returns a page's JSON. Throws NoAnswer.
   * @param {string} path without a slash before it: below whatever prefix the page is @param {object} [question] POSTed if given
   * @returns {Promise<any>}
   */
  async ask(path, question) {
    const response = await this.#send(path, question === undefined ? "GET" : "POST", question);
    if (response.ok) return jsonOf(response);
    return this.#refuse(response);
  }

  /**
   * Makes a change and returns its outcome, also if the server refused it. Throws NoAnswer.
   * @param {"PUT" | "DELETE"} method @param {string} path @param {object} change
   * @returns {Promise<any>}
   */
  async change(method, path, change) {
    const response = await this.#send(path, method, change);
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    return isJson ? jsonOf(response) : this.#refuse(response);
  }

  /** @param {Response} response @returns {Promise<never>} */
  async #refuse(response) {
    const says = (await response.text().catch(() => "")).trim();
    throw new NoAnswer(this.#whyOf(response.status), says === "" ? `the server answered ${response.status}` : says);
  }

  /** @param {string} path @param {string} method @param {object} [question] */
  async #send(path, method, question) {
    const token = this.#token;
    try {
      return await fetch(path, {
        method,
        headers: { ...proxyHeaders(location), ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
        ...(question === undefined ? {} : { body: JSON.stringify(question) }),
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      });
    } catch (cause) {
      const isLate = cause instanceof DOMException && cause.name === "TimeoutError";
      throw new NoAnswer("away", isLate ? `no answer within ${ANSWER_MS_MAX / 1_000} s` : "can't reach the server");
    }
  }

  /** @param {number} status @returns {Why} */
  #whyOf(status) {
    if (status === 401) return this.#token === undefined ? "token missing" : "token wrong";
    if (status === 403) return "refused";
    if (status === 404 || status === 409) return "not there";
    return status === 400 || status === 413 ? "bad question" : "away";
  }
}

/** @param {Response} response @returns {Promise<any>} */
function jsonOf(response) {
  return response.json().catch(() => Promise.reject(new NoAnswer("away", "the answer broke off")));
}
