// Tries everything that can happen in a small world, in every order, up to a number of events. The world is the real code: it can't be
// copied, so each state is reached by replaying the choices that lead to it. Breadth first, so a counterexample is as short as any.

/** Something that happens in steps, one of several at a time. The same choices always lead to the same world. */
export interface World {
  /** What can happen next, in an order that only the world's state decides. */
  choices(): readonly string[];
  /** Has one of them happen. */
  choose(choice: string): void;
  /** What is wrong; undefined if nothing is. The last question: it may have the world go on to its end. */
  broken(): string | undefined;
  /** Equal for worlds that can't be told apart by what happens later. */
  fingerprint(): string;
}

/** What an exploration has seen. */
export interface Explored {
  /** Number of different worlds. */
  readonly worlds: number;
  /** The shortest way to a world that is broken: what happened, and what is wrong. Empty if none is broken. */
  readonly story: readonly string[];
}

/** Explores the world that `begin` makes, up to `depthMax` events. */
export function explore(begin: () => World, depthMax: number): Explored {
  const first = begin();
  const seen = new Set([first.fingerprint()]);
  let edge: Way[] = [{ path: [], choices: first.choices() }];
  for (let depth = 0; depth < depthMax && edge.length > 0; depth++) {
    const next: Way[] = [];
    for (const { path, choices } of edge) {
      for (const choice of choices) {
        const world = replay(begin, path);
        world.choose(choice);
        const fingerprint = world.fingerprint();
        if (seen.has(fingerprint)) continue;
        const way = { path: [...path, choice], choices: world.choices() };
        const wrong = world.broken();
        if (wrong !== undefined) return { worlds: seen.size, story: [...way.path, wrong] };
        seen.add(fingerprint);
        next.push(way);
      }
    }
    edge = next;
  }
  return { worlds: seen.size, story: [] };
}

/** The choices that lead to a world, and those that it has. */
interface Way {
  readonly path: readonly string[];
  readonly choices: readonly string[];
}

function replay(begin: () => World, path: readonly string[]): World {
  const world = begin();
  for (const choice of path) world.choose(choice);
  return world;
}
