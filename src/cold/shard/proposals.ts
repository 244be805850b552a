import { errorNumber } from '../../base/errors.ts';
import type { Group } from '../../group/group.ts';
import { SlotSequence } from '../../group/reply-slot.ts';
import type { CommandFields } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';

const NO_LEADER = errorNumber('NO_LEADER');

/** Outcome of a command: applied here, certainly not in the log, or unknown. */
export type ProposalOutcome = 'applied' | 'refused' | 'unknown';

/** Commands of the shard's own that wait for their answer: at most one for each worker and group. */
export class Proposals {
  readonly #waiting = new Map<number, (outcome: ProposalOutcome, reply: Reply) => void>();
  readonly #slots = new SlotSequence('shard');

  propose(
    group: Group,
    fields: CommandFields,
    nowMs: number,
    onOutcome: (outcome: ProposalOutcome, reply: Reply) => void,
  ): void {
    const slot = this.#slots.take();
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
