/** What this program does with a backup gives way to everything else on its machine, a node for one. */
import { readdirSync } from 'node:fs';
import { constants, setPriority } from 'node:os';

/** Where there is no /proc, or it may not be done, everything is as usual. */
export function giveWay(): void {
  try {
    // On Linux a priority belongs to a thread, and those of the engine have started already.
    for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), constants.priority.PRIORITY_LOW);
  } catch {
    // A thread has ended meanwhile, most likely.
  }
}
