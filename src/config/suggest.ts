/** The known name that a mistyped one was meant to be. */

/** "Did you mean": the known name nearest to a mistyped one, when it is near enough to be a help. */
export function suggest(written: string, known: readonly string[]): string {
  const best = nearest(written, known);
  return best === undefined ? '' : `; did you mean ${best}?`;
}

export function nearest<T extends string>(written: string, known: readonly T[]): T | undefined {
  let best: T | undefined;
  // A third of the letters may differ; beyond that a suggestion is a guess.
  let bestDistance = Math.max(2, Math.floor(written.length / 3)) + 1;
  for (const name of known) {
    // `storage.cold.bucket` is far from `storage.cold.s3.bucket` in letters, near in meaning.
    const sameEnding = name.slice(name.lastIndexOf('.') + 1) === written.slice(written.lastIndexOf('.') + 1);
    const distance = Math.min(sameEnding ? 2 : Infinity, editDistance(written, name));
    if (distance < bestDistance) {
      bestDistance = distance;
      best = name;
    }
  }
  return best;
}

/** Levenshtein's distance by rows. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const substitution = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
