/**
 * Whether a write would add bytes to the current state. It would not when it will be refused or is the duplicate of an
 * accepted one. Back-pressure lets such writes pass, so that they get their real answer, and a producer whose answer
 * was lost gets it.
 */
import { checkAppend, refuse } from '../stream/operations/append.ts';
import { isClosedTo } from '../stream/backup/apply-import.ts';
import { exceedsRetained } from '../stream/core/buckets.ts';
import { exceedsQuota, isHeld } from '../stream/operations/create.ts';
import { checkPublish } from '../stream/operations/publish.ts';
import type { Head } from '../stream/core/head.ts';
import { decide } from '../stream/core/producers.ts';
import type { State } from '../stream/core/state.ts';
import { type Command, FLAG_MATCH, FLAG_PRODUCER } from '../protocol/command.ts';
import { REPLY_PRODUCER, type Reply } from '../protocol/reply.ts';
import { QUOTA_OVER, QUOTA_UNKNOWN } from '../protocol/request.ts';
import { isJson } from '../protocol/media-type.ts';
import { COMMANDS, type CommandsWith, byNumber } from '../protocol/operations.ts';
import { decodePublish } from '../protocol/position-command.ts';

type WouldAdd = (state: State, command: Command, payloadBytes: number, nowMs: number) => boolean;

/** The check for each command that quotas count. */
const WOULD_ADD = byNumber<WouldAdd>({
  create: createWouldAdd,
  append: appendWouldAdd,
  appendBatch: appendWouldAdd,
  forkBegin: forkBeginWouldAdd,
  publishSnapshot: publishWouldAdd,
} satisfies Record<CommandsWith<{ quota: 'counted' }>, WouldAdd>);

/** `command` as received. What is known only after preparation counts as adding bytes. */
export function wouldAddBytes(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  if (isClosedTo(state, command.kind)) return false;
  return WOULD_ADD[command.kind]?.(state, command, payloadBytes, nowMs) ?? true;
}

function createWouldAdd(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  if (existing !== undefined) return existing.expired(nowMs) && !existing.hasPins;
  if (isHeld(state, command)) return false;
  if (command.has(FLAG_PRODUCER) && command.producerSeq !== 0) return false;
  if (isJson(command.contentType())) return true;
  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  return !exceedsQuota(state.buckets.of(state.tx, key, 0, key.indexOf(0)), payloadBytes);
}

/** A fork that exists, or is being created, gets that answer. */
function forkBeginWouldAdd(state: State, command: Command, _payloadBytes: number, nowMs: number): boolean {
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  return existing === undefined ? !isHeld(state, command) : existing.expired(nowMs);
}

function appendWouldAdd(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(nowMs)) return false;
  if (command.has(FLAG_PRODUCER) && !producerWouldAdd(state, head, command)) return false;
  // A match on a stream without a type depends on records that are not counted yet.
  const isKnown = head.contentType !== '' || !command.has(FLAG_MATCH);
  if (isKnown && checkAppend(head, command) !== 'OK') return false;
  // Frames of a batch have their own sizes, and prepared JSON has fewer bytes.
  if (command.kind === COMMANDS.appendBatch.number || head.json) return true;
  return !exceedsRetained(state.buckets.of(state.tx, head.key, 0, head.bucketBytes), payloadBytes);
}

/** A repeat finds its snapshot published. */
function publishWouldAdd(state: State, command: Command, _payloadBytes: number, nowMs: number): boolean {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  const publish = decodePublish(command.payload());
  if (head === undefined || head.expired(nowMs) || publish === undefined) return false;
  const checked = checkPublish(state, head, publish);
  return typeof checked === 'object' && checked.record !== undefined;
}

function producerWouldAdd(state: State, head: Head, command: Command): boolean {
  const idBytes = command.bytes.slice(command.producerIdAt, command.producerIdAt + command.producerIdBytes);
  const producer = state.producer(head, command.producerId(), idBytes);
  return decide(producer, command.producerEpoch, command.producerSeq) === 'accept';
}

/**
 * The leader's answer to a write that carries a gate's mark (gateway/quota-gate.ts), before it is proposed. A refusal
 * shows the stream's position.
 */
export function quotaRefusal(
  mark: number,
  state: State,
  command: Command,
  payloadBytes: number,
  nowMs: number,
  reply: Reply,
): 'QUOTA_EXCEEDED' | 'QUOTA_UNKNOWN' | undefined {
  if (mark !== QUOTA_OVER && mark !== QUOTA_UNKNOWN) return undefined;
  if (!wouldAddBytes(state, command, payloadBytes, nowMs)) return undefined;
  if (mark === QUOTA_UNKNOWN && !isBounded(state, command)) return undefined;
  const code = mark === QUOTA_OVER ? 'QUOTA_EXCEEDED' : 'QUOTA_UNKNOWN';
  refuse(reply, code, state.find(command.bytes, command.keyAt, command.keyBytes));
  if (command.has(FLAG_PRODUCER)) reply.flags |= REPLY_PRODUCER;
  return code;
}

function isBounded(state: State, { bytes, keyAt }: Command): boolean {
  const bucket = state.buckets.of(state.tx, bytes, keyAt, bytes.indexOf(0, keyAt) - keyAt);
  return bucket.streamsMax >= 0 || bucket.retainedBytesMax >= 0;
}
