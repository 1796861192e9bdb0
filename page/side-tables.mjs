// What is there in some services only: descriptors without a rule, workers, the certificate.

import { bodyOf, byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { countWords, shown, timeWords } from "./words.mjs";

/** @typedef {import("../src/operate/http/state-json.ts").StateView} State */

/** @param {State} state */
export function showUnmatched({ unmatched }) {
  setShown(byId("unmatched-note"), unmatched.length === 0);
  setShown(byId("unmatched"), unmatched.length > 0);
  keepChildren(bodyOf("unmatched"), unmatched, {
    key: ({ domain }) => domain,
    create: ({ domain }) =>
      make("tr", {}, make("th", { scope: "row" }, shown(domain)), make("td", { class: "number" })),
    update: (row, { descriptors }) => setText(part(row, "td"), countWords(descriptors)),
  });
}

/** @param {State} state */
export function showWorkers({ workers, answered_by: answeredBy }) {
  setShown(byId("workers-section"), workers !== undefined);
  keepChildren(bodyOf("workers"), workers ?? [], {
    key: ({ worker, pid }) => `${worker} ${pid}`,
    create: ({ worker, pid }) => {
      const head = make("th", { scope: "row" }, String(worker), make("small", {}, `pid ${pid}`));
      const cells = ["", "number", "number wide", ""].map((name) => make("td", { class: name }));
      return make("tr", {}, head, ...cells);
    },
    update: (row, { worker, status, connections, calls, rules }) => {
      const hash = /** @type {{ hash: string | null }} */ (rules).hash?.slice(0, 12) ?? "none";
      const answers = worker === answeredBy ? `${status}, answers here` : String(status);
      [answers, countWords(Number(connections)), countWords(Number(calls)), hash].forEach((text, i) => {
        setText(/** @type {Element} */ (row.children[i + 1]), text);
      });
    },
  });
}

/** @param {State} state */
export function showCertificate({ certificate, at }) {
  setShown(byId("certificate-section"), certificate !== null);
  if (certificate === null) return;
  const { subject, valid_to: end, file, fault, last_error: refused } = certificate;
  const until = timeWords(Date.parse(String(end)), Date.parse(at));
  const wrong = [fault, refused].filter((text) => typeof text === "string").join("; ");
  setText(
    byId("certificate"),
    shown(`${subject}, valid until ${until}, from ${file}${wrong === "" ? "" : `: ${wrong}`}`, 600),
  );
}
