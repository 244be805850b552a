// Cases about what a program says of a cluster at one moment. A node that stands still for an election timeout makes
// another answer the right one, so such a case runs again. A machine may stall once or twice in it; a fault is there
// each time.
import { setTimeout as delay } from 'node:timers/promises';

const TRIES = 3;
/** Longer than an election. */
const BETWEEN_MS = 3000;

/** `before` each further try brings back what the case begins with. */
export async function tried<T>(
  body: () => Promise<T>,
  before: () => Promise<void> = async () => undefined,
): Promise<T> {
  for (let left = TRIES - 1; ; left--) {
    try {
      return await body();
    } catch (error) {
      if (left === 0) throw error;
      process.stderr.write(
        `once more, after: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
      );
      await delay(BETWEEN_MS);
      await before();
    }
  }
}
