/**
 * A fork as the group of its source knows it. At the second step of a fork it checks the request and records a pin,
 * so that the source's name stays taken when the source is removed; the bytes are copied and need no protection. When
 * the fork is removed (remove.ts), it removes the pin and, with the last pin of a removed stream, its tombstone; that
 * stream may itself have been a fork, and so on. Each step may be repeated.
 */
import { holdsAnything } from '../backup/apply-import.ts';
import { planted } from '../../base/planted.ts';
import { readText } from '../../base/text.ts';
import type { Command } from '../../protocol/command.ts';
import type { PendingNotification, PinCheck } from '../../protocol/queries/summaries.ts';
import { decodeForkPin } from '../../protocol/fork-command.ts';
import { FORK_GONE } from '../../protocol/fork-gone.ts';
import { sameContentType } from '../../protocol/media-type.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import { explain, type Reply } from '../../protocol/reply.ts';
import { refuse } from '../operations/append.ts';
import { isHeld } from '../operations/create.ts';
import { removeStream } from '../operations/remove.ts';
import type { State } from '../core/state.ts';
import { forkOf } from './form.ts';
import type { Unpin } from '../core/fork-rows.ts';

/** Reply: type, start offset, tail, its first record and ordinal, a = ttl, b = expires at, c = incarnation. */
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

/** The source to notify, if any. */
export function showUnpin(unpin: Unpin | undefined, reply: Reply): void {
  if (unpin === undefined) return;
  FORK_GONE.write(reply, { token: unpin.token, source: text(unpin.source) });
}

/** Its creator abandons a fork. A complete one stays. */
export function applyForkAbort(state: State, command: Command, reply: Reply): void {
  const head = forkOf(state, command);
  if (head?.provisional === true) showUnpin(removeStream(state, head, command.nowMs), reply);
}

/** In the group of the source. */
export function applyForkUnpin(state: State, command: Command, reply: Reply): void {
  const { bytes, keyAt, keyBytes, forkToken } = command;
  const { forks } = state;
  const head = state.findAny(bytes, keyAt, keyBytes);
  if (head !== undefined) {
    if (!head.hasPins) return;
    forks.deletePin(head.incarnation, forkToken);
    head.hasPins = forks.hasPins(head.incarnation);
    state.touch(head, 0);
    return;
  }
  const tombstone = forks.tombstone(bytes, keyAt, keyBytes);
  if (tombstone === undefined) return;
  forks.deletePin(tombstone.incarnation, forkToken);
  if (forks.hasPins(tombstone.incarnation) || planted('name-kept-without-forks')) return;
  showUnpin(forks.deleteTombstone(bytes.slice(keyAt, keyAt + keyBytes), tombstone), reply);
}

/** In the group where the fork was. */
export function applyForkUnpinned(state: State, { forkToken }: Command): void {
  if (state.forks.hasUnpin(forkToken)) state.forks.deleteUnpin(forkToken);
}

/**
 * a = 1: the fork exists, or its remains still keep its source. A group that was never used had no fork either, unless
 * it was restored empty or will still be restored from the same backup as the asking group.
 */
export function applyForkCheck(state: State, command: Command, reply: Reply): void {
  const tombstone = state.forks.tombstone(command.bytes, command.keyAt, command.keyBytes);
  const kept = forkOf(state, command) !== undefined || tombstone?.unpin?.token === command.forkToken;
  const isToCome = state.imported?.phase !== 'done' && !holdsAnything(state);
  const isHere = (kept || state.forks.hasUnpin(command.forkToken)) && !planted('living-fork-taken-for-gone');
  COMMANDS.forkCheck.result.write(reply, { isThere: isHere || isToCome });
}

/**
 * The sources that the leader still has to notify of removed forks, from `token` on, then those before it, so that
 * notifications that cannot be sent now do not block the others.
 */
export function pendingNotifications(state: State, most: number, token = 0): PendingNotification[] {
  const found: PendingNotification[] = [];
  const take = (unpin: Unpin): boolean => found.push({ token: unpin.token, source: text(unpin.source) }) < most;
  state.forks.eachUnpin(token, take);
  if (found.length < most) state.forks.eachUnpin(0, (unpin) => unpin.token < token && take(unpin));
  return found;
}

/**
 * Pins from (incarnation, token) on in key order. The leader verifies them now and then: a pin may arrive after its
 * fork was abandoned, and groups may be restored from different times.
 */
export function pinChecks(state: State, incarnation: number, token: number, most: number): PinCheck[] {
  const found: PinCheck[] = [];
  state.forks.eachPin(incarnation, token, ({ fork, source }, place) => {
    return found.push({ ...place, source: text(source), fork: text(fork) }) < most;
  });
  return found;
}

function text(key: Uint8Array): string {
  return readText(key, 0, key.length);
}
