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
  /** Most events that led to one of them. */
  readonly depth: number;
  /** True if nothing more can happen in any of them: deeper is the same. */
  readonly isComplete: boolean;
  /** The shortest way to a world that is broken: what happened, and what is wrong. Empty if there is none. */
  readonly story: readonly string[];
}

export interface Scope {
  /** Most events. */
  readonly depth: number;
  /** Most worlds: the exploration ends, and is not complete, when it has seen them. */
  readonly worlds?: number;
}

/** Explores the world that `begin` makes. */
export function explore(
  begin: () => World,
  { depth: depthMax, worlds: worldsMax = Number.POSITIVE_INFINITY }: Scope,
): Explored {
  const seen = new Set([begin().fingerprint()]);
  let edge: (readonly string[])[] = [[]];
  for (let depth = 0; depth < depthMax; depth++) {
    const next: (readonly string[])[] = [];
    for (const path of edge) {
      let world: World | undefined = replay(begin, path);
      for (const choice of world.choices()) {
        world ??= replay(begin, path);
        world.choose(choice);
        const fingerprint = world.fingerprint();
        const isKnown = seen.has(fingerprint);
        const wrong = isKnown ? undefined : world.broken();
        world = undefined;
        if (wrong !== undefined)
          return { worlds: seen.size, depth: depth + 1, isComplete: false, story: [...path, choice, wrong] };
        if (isKnown) continue;
        seen.add(fingerprint);
        if (seen.size > worldsMax) return { worlds: seen.size, depth: depth + 1, isComplete: false, story: [] };
        next.push([...path, choice]);
      }
    }
    edge = next;
    if (edge.length === 0) return { worlds: seen.size, depth, isComplete: true, story: [] };
  }
  return { worlds: seen.size, depth: depthMax, isComplete: false, story: [] };
}

function replay(begin: () => World, path: readonly string[]): World {
  const world = begin();
  for (const choice of path) world.choose(choice);
  return world;
}
