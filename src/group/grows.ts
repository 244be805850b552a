/**
 * Whether a write would bring bytes into the state as it is: no when it will be refused, or is the duplicate of an accepted one.
 * Back-pressure lets such writes pass, so that they are told why, and a producer whose answer was lost gets it.
 */
import { checkAppend } from '../stream/append.ts';
import { exceedsRetained } from '../stream/buckets.ts';
import { exceedsQuota, isHeld } from '../stream/create.ts';
import type { Head } from '../stream/head.ts';
import { decide } from '../stream/producers.ts';
import type { State } from '../stream/state.ts';
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_FORK_BEGIN,
  type Command,
  FLAG_MATCH,
  FLAG_PRODUCER,
} from '../protocol/command.ts';
import { isJson } from '../protocol/media-type.ts';

/** `command` as it was received; what can only be known once it is prepared counts as bytes. */
export function grows(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  switch (command.kind) {
    case COMMAND_CREATE:
      return createGrows(state, command, payloadBytes, nowMs);
    case COMMAND_APPEND:
    case COMMAND_APPEND_BATCH:
      return appendGrows(state, command, payloadBytes, nowMs);
    case COMMAND_FORK_BEGIN:
      return beginGrows(state, command, nowMs);
    default:
      return true;
  }
}

function createGrows(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  if (existing !== undefined) return existing.expired(nowMs) && !existing.hasPins;
  if (isHeld(state, command)) return false;
  if (command.has(FLAG_PRODUCER) && command.producerSeq !== 0) return false;
  if (isJson(command.contentType())) return true;
  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  return !exceedsQuota(state.buckets.of(state.tx, key, 0, key.indexOf(0)), payloadBytes);
}

/** One that is there, or is being made, is told so. */
function beginGrows(state: State, command: Command, nowMs: number): boolean {
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  return existing === undefined ? !isHeld(state, command) : existing.expired(nowMs);
}

function appendGrows(state: State, command: Command, payloadBytes: number, nowMs: number): boolean {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(nowMs)) return false;
  if (command.has(FLAG_PRODUCER) && !producerGrows(state, head, command)) return false;
  // What a match on a stream without a type means depends on records that are not counted yet.
  const isKnown = head.contentType !== '' || !command.has(FLAG_MATCH);
  if (isKnown && checkAppend(head, command) !== 'OK') return false;
  // Frames of a batch have sizes of their own, and JSON has fewer bytes once it is prepared.
  if (command.kind === COMMAND_APPEND_BATCH || head.json) return true;
  return !exceedsRetained(state.buckets.of(state.tx, head.key, 0, head.bucketBytes), payloadBytes);
}

function producerGrows(state: State, head: Head, command: Command): boolean {
  const idBytes = command.bytes.slice(command.producerIdAt, command.producerIdAt + command.producerIdBytes);
  const producer = state.producer(head, command.producerId(), idBytes);
  return decide(producer, command.producerEpoch, command.producerSeq) === 'accept';
}
