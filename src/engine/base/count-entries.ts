// The entries of the table of names (shared-counts.ts): what is known of each place, and the texts that some names have, in the order in
// which they were made.

import {
  ENTRY_WORDS,
  Entry,
  type EntryField,
  type layoutOf,
  PLACE_CELLS,
  TEXT_WORDS,
  TextLink,
  Word,
} from "./count-layout.ts";
import type { JournaledMemory } from "./journaled-memory.ts";

/** A name with a text. */
export interface TextName {
  readonly parent: number | undefined;
  readonly text: string;
}

export class CountEntries {
  readonly #memory: JournaledMemory;
  readonly #words: Int32Array;
  readonly #texts: Buffer;
  readonly #layout: ReturnType<typeof layoutOf>;

  constructor(memory: JournaledMemory, layout: ReturnType<typeof layoutOf>) {
    this.#memory = memory;
    this.#words = memory.words;
    this.#layout = layout;
    this.#texts = Buffer.from(memory.words.buffer, layout.textsAt, layout.texts * TEXT_WORDS * 4);
  }

  textOf(place: number): TextName {
    const at = this.#textAt(place);
    const parent = this.get(place, "parent");
    const text = this.#texts.toString("utf8", at, at + this.get(place, "textBytes"));
    return { parent: parent === 0 ? undefined : cellOf(parent), text };
  }

  /** Makes a text, the newest of all. */
  setText(place: number, text: string): void {
    this.#texts.write(text, this.#textAt(place));
    this.set(place, "textBytes", Buffer.byteLength(text));
    const made = (this.#words[Word.textsMade] as number) + 1;
    this.write(Word.textsMade, made);
    this.set(place, "made", made);
    this.joinTexts(this.#words[Word.newestText] as number, place);
    this.joinTexts(place, 0);
  }

  /** Where the text begins, counted from the first one. */
  #textAt(place: number): number {
    return ((this.get(place, "text") - 1) * TEXT_WORDS + 2) * 4;
  }

  link(place: number, link: keyof typeof TextLink): number {
    return this.#words[this.#linkAt(place, link)] as number;
  }

  #linkAt(place: number, link: keyof typeof TextLink): number {
    return this.#layout.textsAt / 4 + (this.get(place, "text") - 1) * TEXT_WORDS + TextLink[link];
  }

  /** Makes `newer` follow `older` in the list of texts; 0 is none. */
  joinTexts(older: number, newer: number): void {
    if (older > 0) this.write(this.#linkAt(older, "newer"), newer);
    if (newer > 0) this.write(this.#linkAt(newer, "older"), older);
    else this.write(Word.newestText, older);
  }

  all(fits: (place: number) => boolean): number[] {
    const used = this.#words[Word.used] as number;
    const all: number[] = [];
    for (let place = 1; place <= used; place++) if (fits(place)) all.push(place);
    return all;
  }

  get(place: number, field: EntryField): number {
    return this.#words[this.at(place) + Entry[field]] as number;
  }

  set(place: number, field: EntryField, value: number): void {
    this.write(this.at(place) + Entry[field], value);
  }

  write(at: number, value: number): void {
    this.#memory.setWord(at, value);
  }

  at(place: number): number {
    return this.#layout.entriesAt + place * ENTRY_WORDS;
  }

  children(): Map<number, number[]> {
    const children = new Map<number, number[]>();
    for (let place = this.#words[Word.newestText] as number; place > 0; place = this.link(place, "older")) {
      const parent = this.get(place, "parent");
      const known = children.get(parent);
      if (known === undefined) children.set(parent, [place]);
      else known.push(place);
    }
    return children;
  }
}

export function cellOf(place: number): number {
  return (place - 1) * PLACE_CELLS;
}

export function placeAt(cell: number): number {
  return cell / PLACE_CELLS + 1;
}
