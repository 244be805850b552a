/**
 * Explains to a human reader what a refusal compared: the request's value and the stream's. The sentence of the error
 * code (base/errors.ts) comes first.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { type Command, FLAG_CLOSE } from '../../protocol/command.ts';
import { streamTag } from '../../protocol/condition.ts';
import { OFFSET_DIGITS } from '../../protocol/header-values.ts';
import type { Head } from '../core/head.ts';

/** Limit for a shown value: types and tokens may be as long as a header block. */
const SHOWN_CHARS = 120;

/** Explains a refused write; empty when the code says everything. */
export function explainWrite(code: ErrorCode, head: Head, command: Command): string {
  switch (code) {
    case 'CONTENT_TYPE_MISMATCH':
      return `${shown(command.contentType())}, the stream is ${shown(head.contentType)}`;
    case 'SEQ_CONFLICT':
      return `${quoted(command.streamSeq())} does not come after ${quoted(head.lastSeq ?? '')}`;
    case 'RECORD_PRECONDITION_FAILED':
      return `Stream-Record-Match is ${command.recordMatch}, the record tail is ${head.recordNext}`;
    case 'EXPECTED_OFFSET_CONFLICT':
      return `Stream-Expected-Offset is ${digits(command.expectedOffset)}, the tail is ${digits(head.tail)}`;
    case 'PRECONDITION_FAILED':
      return `its ETag is "${streamTag(head.incarnation, head.createdAtMs, head.tail, head.closed)}"`;
    default:
      return '';
  }
}

/** Names the differences between a create and the existing stream. */
export function explainCreate(head: Head, command: Command, hasSameAttributes: boolean): string {
  const differences: string[] = [];
  const type = command.contentType();
  if (!head.matchesType(type)) {
    differences.push(`Content-Type is ${shown(type)}, the stream is ${shown(head.shownContentType)}`);
  }
  if (command.has(FLAG_CLOSE) !== head.closed) {
    differences.push(
      head.closed ? 'the stream is closed, the request leaves it open' : 'the stream is open, the request closes it',
    );
  }
  if (command.ttlSeconds !== head.ttlSeconds) {
    differences.push(`Stream-TTL is ${seconds(command.ttlSeconds)}, the stream has ${seconds(head.ttlSeconds)}`);
  }
  if (command.expiresAtMs !== head.expiresAtMs) differences.push('Stream-Expires-At differs');
  if (!hasSameAttributes) differences.push('Stream-Attrs differ');
  return differences.join('; ');
}

/** An offset as headers write it. A peer may send any number. */
function digits(offset: number): string {
  return String(offset).padStart(OFFSET_DIGITS, '0');
}

function seconds(ttl: number): string {
  return ttl < 0 ? 'none' : `${ttl} s`;
}

function shown(value: string): string {
  return value === '' ? 'none' : cut(value);
}

function quoted(value: string): string {
  return `"${cut(value)}"`;
}

function cut(value: string): string {
  return value.length <= SHOWN_CHARS ? value : `${value.slice(0, SHOWN_CHARS)}...`;
}
