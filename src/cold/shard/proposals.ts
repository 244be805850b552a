import { errorNumber } from '../../base/errors.ts';
import type { Group } from '../../group/group.ts';
import type { CommandFields } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';

/** Slots of commands that the shard proposes for itself: between those of the main thread and those of other nodes. */
export const OWN_SLOTS = 0x3000_0000;
const OWN_SLOTS_END = 0x3fff_ffff;
const NO_LEADER = errorNumber('NO_LEADER');

/** What became of a command: applied here, certainly not in the log, or unknown. */
export type Outcome = 'applied' | 'refused' | 'unknown';

/** Commands of the shard's own that wait for their answer: at most one for each worker and group. */
export class Proposals {
  readonly #waiting = new Map<number, (outcome: Outcome, reply: Reply) => void>();
  #next = OWN_SLOTS;

  get waiting(): number {
    return this.#waiting.size;
  }

  propose(
    group: Group,
    fields: CommandFields,
    nowMs: number,
    onOutcome: (outcome: Outcome, reply: Reply) => void,
  ): void {
    const slot = this.#next;
    this.#next = slot === OWN_SLOTS_END ? OWN_SLOTS : slot + 1;
    this.#waiting.set(slot, onOutcome);
    group.submitOwn(slot, fields, nowMs);
  }

  /** `reply` is valid only during the call. */
  answered(reply: Reply): void {
    const onOutcome = this.#waiting.get(reply.id);
    if (onOutcome === undefined) return;
    this.#waiting.delete(reply.id);
    onOutcome(reply.code === 0 ? 'applied' : reply.code === NO_LEADER ? 'refused' : 'unknown', reply);
  }
}
