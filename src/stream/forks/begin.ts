/**
 * The first step of a fork: a provisional stream takes its name, invisible until it is complete (form.ts). The request
 * is stored, so that a repetition can be distinguished from another request.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { type Command, FLAG_CLOSE, FLAG_SEQ } from '../../protocol/command.ts';
import { FORK_AT_TAIL, type ForkBegin, decodeForkBegin } from '../../protocol/fork-command.ts';
import { sameContentType } from '../../protocol/media-type.ts';
import { REPLY_CREATED, type Reply } from '../../protocol/reply.ts';
import { refuse } from '../operations/append.ts';
import {
  admitFirst,
  checkSeq,
  commandAttributes,
  describe,
  exceedsQuota,
  isHeld,
  listDeadline,
  sameAttributes,
} from '../operations/create.ts';
import type { Head } from '../core/head.ts';
import { compareBytes } from '../../base/bytes.ts';
import { removeStream } from '../operations/remove.ts';
import type { State } from '../core/state.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** With REPLY_CREATED the fork must be created; without, it exists already. */
export function applyForkBegin(state: State, command: Command, reply: Reply): void {
  const begin = decodeForkBegin(command.payload());
  if (begin === undefined || command.forkToken <= 0) return refuse(reply, 'INTERNAL');
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  const expired = existing !== undefined && existing.expired(command.nowMs);
  const isWhole = existing !== undefined && !expired && !existing.provisional;
  if (!admitFirst(command, isWhole ? existing : undefined, reply)) return undefined;
  if (existing?.provisional === true && state.forks.origin(existing.incarnation).token === command.forkToken) {
    // A repetition: its first answer was lost.
    reply.flags |= REPLY_CREATED;
    return undefined;
  }
  if (existing?.provisional === true && !expired) return refuse(reply, 'FORK_FORMING');
  if (existing !== undefined && !expired) return describeExisting(state, existing, command, begin, reply);
  // Expired, or a fork whose creator fell silent.
  if (existing !== undefined) removeStream(state, existing, command.nowMs);
  if (isHeld(state, command)) return refuse(reply, 'NAME_HELD');
  return reserve(state, command, begin, reply);
}

function reserve(state: State, command: Command, { source, subOffset }: ForkBegin, reply: Reply): void {
  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  const bucket = state.buckets.of(state.tx, key, 0, key.indexOf(0));
  if (exceedsQuota(bucket, 0)) return refuse(reply, 'QUOTA_EXCEEDED');
  bucket.streamCount++;
  state.buckets.touch(bucket);
  const head = state.create(key, command.nowMs);
  head.forked = true;
  head.provisional = true;
  if (command.has(FLAG_SEQ)) head.lastSeq = command.streamSeq();
  const attributes = commandAttributes(command);
  if (attributes !== undefined) state.setAttributes(head, attributes);
  const { forkToken: token, ttlSeconds, expiresAtMs } = command;
  state.forks.putOrigin(head.incarnation, { token, source, anchor: -1, subOffset, ttlSeconds, expiresAtMs });
  listDeadline(state, head);
  reply.flags |= REPLY_CREATED;
  return undefined;
}

function describeExisting(state: State, head: Head, command: Command, begin: ForkBegin, reply: Reply): void {
  const code = compare(state, head, command, begin);
  if (code !== 'OK') return refuse(reply, code, head);
  describe(head, reply);
  COMMANDS.forkBegin.result.write(reply, head);
  return undefined;
}

/** An omitted type or offset means the same as in the first request. */
function compare(state: State, head: Head, command: Command, begin: ForkBegin): ErrorCode {
  if (!head.forked) return 'CREATE_CONFLICT';
  const type = command.contentType();
  const origin = state.forks.origin(head.incarnation);
  const same =
    (type === '' || sameContentType(type, head.shownContentType)) &&
    compareBytes(origin.source, begin.source) === 0 &&
    (begin.offset === FORK_AT_TAIL || begin.offset === origin.anchor) &&
    begin.subOffset === origin.subOffset &&
    command.has(FLAG_CLOSE) === head.closed &&
    command.ttlSeconds === origin.ttlSeconds &&
    command.expiresAtMs === origin.expiresAtMs &&
    sameAttributes(state, head, command);
  return same ? checkSeq(head, command) : 'CREATE_CONFLICT';
}
