// Asks whether to reset buckets, and has the server do it.

import { NoAnswer } from "./ask.mjs";
import { byId, make } from "./dom.mjs";
import { shown } from "./words.mjs";

/**
 * @typedef {import("./ask.mjs").Server} Server
 * @typedef {{ says: string, buckets: readonly { after?: object }[], isDone: boolean }} Done
 */

/**
 * Undefined if whoever was asked has said no.
 * @param {Server} server @param {object} question @param {readonly { bucket: string }[]} buckets
 * @returns {Promise<Done | undefined>}
 */
export async function askReset(server, question, buckets) {
  byId("reset-buckets").replaceChildren(
    ...buckets.map(({ bucket }) => make("li", {}, make("code", {}, shown(bucket, 200)))),
  );
  if (!(await isConfirmed(byId("reset")))) return undefined;
  try {
    return { ...(await server.ask("buckets/reset", question)), isDone: true };
  } catch (error) {
    const says = error instanceof NoAnswer ? error.message : String(error);
    return { says: `Not reset: ${says}`, buckets: [], isDone: false };
  }
}

/** Settled in the turn of the click or key: a dialog that is opened again at once has an answer of its own. @param {HTMLDialogElement} dialog @returns {Promise<boolean>} */
function isConfirmed(dialog) {
  return new Promise((resolve) => {
    const answered = new AbortController();
    const answer = (/** @type {boolean} */ isYes) => {
      answered.abort();
      if (dialog.open) dialog.close();
      resolve(isYes);
    };
    const { signal } = answered;
    byId("reset-yes").addEventListener("click", () => answer(true), { signal });
    byId("reset-no").addEventListener("click", () => answer(false), { signal });
    // The key Escape, which closes by itself.
    dialog.addEventListener("cancel", () => answer(false), { signal });
    dialog.showModal();
    byId("reset-no").focus();
  });
}
