/**
 * The second step of a fork, in the group of its source: checks the request, and records that the fork exists, so that
 * the source's name stays taken when the source is removed. Its bytes are copied, so they need no protection.
 */
import type { Command } from '../../protocol/command.ts';
import { decodeForkPin } from '../../protocol/fork-command.ts';
import { sameContentType } from '../../protocol/media-type.ts';
import type { Reply } from '../../protocol/reply.ts';
import { refuse } from '../../stream/append.ts';
import type { State } from '../../stream/state.ts';
import { isHeld } from '../../stream/create.ts';
import { explain } from '../../protocol/refusal.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Reply: type, start offset, tail, first record and ordinal of the start offset, a = ttl, b = expires at, c = incarnation. */
export function applyForkPin(state: State, command: Command, reply: Reply): void {
  const pin = decodeForkPin(command.payload());
  if (pin === undefined || command.forkToken <= 0) return refuse(reply, 'INTERNAL');
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) {
    return refuse(reply, isHeld(state, command) ? 'FORK_SOURCE_DELETED' : 'FORK_SOURCE_NOT_FOUND');
  }
  const type = command.contentType();
  if (type !== '' && !sameContentType(type, head.shownContentType)) {
    refuse(reply, 'FORK_TYPE_MISMATCH');
    explain(reply, `${type}, the source is ${head.shownContentType}`);
    return undefined;
  }
  if (pin.offset > head.tail) {
    refuse(reply, 'FORK_BEYOND_TAIL', head);
    explain(reply, `${pin.offset}, the tail is ${head.tail}`);
    return undefined;
  }
  if (pin.offset >= 0 && pin.offset < head.startOffset) {
    refuse(reply, 'STREAM_GONE', head);
    reply.nextOffset = head.startOffset;
    return undefined;
  }
  state.forks.putPin(head.incarnation, command.forkToken, { fork: pin.fork, source: head.key });
  head.hasPins = true;
  // Counts as a read, because all of it is about to be read.
  head.touchedAtMs = Math.max(head.touchedAtMs, command.nowMs);
  state.touch(head, 0);
  reply.contentType = head.contentType;
  const { startOffset, ttlSeconds, expiresAtMs, incarnation } = head;
  COMMANDS.forkPin.result.write(reply, { startOffset, ttlSeconds, expiresAtMs, incarnation });
  reply.nextOffset = head.tail;
  reply.recordFirst = head.recordFirst;
  reply.recordNext = head.recordNext;
  return undefined;
}
