/** Which refusals an operation answers: its own, and those that follow from its row. */
import { ERRORS, type ErrorCode } from '../../src/base/errors.ts';
import type { DocumentedPlane } from '../../src/http/api-document.ts';
import type { RouteFamily } from '../../src/http/context.ts';
import { CODES_WITH_OFFSET } from '../../src/http/response.ts';
import type { Route } from '../../src/http/router.ts';
import { type HeaderName, RECORD_RANGE } from './headers.ts';
import type { Content, Operation, OwnRefusal, Refusal } from './operation.ts';

/** The part of a row that the document describes. */
export type DocumentedRow = Pick<
  Route,
  | 'methods'
  | 'pattern'
  | 'access'
  | 'right'
  | 'role'
  | 'takesUrlToken'
  | 'bodyBytesMax'
  | 'isForConsole'
  | 'writesNothing'
>;

export interface ResolvedRefusal {
  readonly status: number;
  readonly code: string;
  readonly text: string;
  readonly content: Content;
  readonly headers: readonly HeaderName[];
}

const SENTENCE: Content = { 'text/plain': 'Sentence' };

export interface Asked {
  readonly planes: readonly DocumentedPlane[];
  readonly method: string;
  readonly path: string;
  readonly family: RouteFamily;
  readonly row: DocumentedRow;
}

/** Those that come before the handler. */
function refusalsOfRow({ planes, method, path, row }: Asked, bodyRefusals: Operation['bodyRefusals']): Refusal[] {
  const isWrite = method !== 'GET' && method !== 'HEAD';
  const isClients = planes.includes('client');
  const refusals: Refusal[] = ['INVALID_HEADER', 'STOPPING'];
  if (row.access === undefined) refusals.push('UNAUTHORIZED');
  if (isClients && row.access === undefined)
    refusals.push('TOKEN_FAILURES', 'RATE_LIMITED', 'UNAVAILABLE', ...refusalsOfScopes(row.right));
  // Every token with a role has the first one.
  if (row.role !== undefined && row.role !== 'observe') refusals.push('INSUFFICIENT_SCOPE');
  if (row.access !== 'probe') refusals.push('HOST_NOT_ALLOWED');
  if (isWrite || planes.includes('admin')) refusals.push('ORIGIN_NOT_ALLOWED');
  const isPutOrPost = method === 'PUT' || method === 'POST';
  if (isClients && isPutOrPost && row.writesNothing !== true) refusals.push('CONTENT_ENCODING');
  if (path.includes('{bucket}') || path === '/v1/stream/{path}') refusals.push('INVALID_NAME');
  if (isWrite && row.bodyBytesMax !== undefined)
    refusals.push(...(bodyRefusals ?? ['BODY_TOO_LARGE', 'INFLIGHT_FULL']));
  return refusals;
}

/** A token with scopes may not know of the stream or bucket, or may not do this. */
function refusalsOfScopes(right: DocumentedRow['right']): Refusal[] {
  if (right === 'any') return [];
  if (right === undefined) return ['INSUFFICIENT_SCOPE'];
  if (right.on === 'listing') return ['INSUFFICIENT_SCOPE'];
  return ['INSUFFICIENT_SCOPE', right.on === 'stream' ? 'STREAM_NOT_FOUND' : 'BUCKET_NOT_FOUND'];
}

/** Each code of each status once. */
export function refusalsOf(asked: Asked, operation: Operation): ResolvedRefusal[] {
  const own = asked.method === 'HEAD' && operation.headRefusesNothing === true ? [] : operation.refusals;
  const all = [...refusalsOfRow(asked, operation.bodyRefusals), ...own].map((one) => resolve(one, asked.family));
  const byKey = new Map(all.map((one) => [`${one.status} ${one.code}`, one]));
  return [...byKey.values()].sort((a, b) => a.status - b.status);
}

function resolve(refusal: Refusal, family: RouteFamily): ResolvedRefusal {
  if (typeof refusal !== 'string') return resolveOwn(refusal);
  const { text, retry, ...statuses } = ERRORS[refusal];
  const content: Content = refusal === 'INFLIGHT_FULL' ? { 'application/json': 'IngressLimit' } : SENTENCE;
  return { status: statuses[family], code: refusal, text, content, headers: headersOf(refusal, retry) };
}

function resolveOwn({ status, code, text, content = SENTENCE, retry }: OwnRefusal): ResolvedRefusal {
  const headers: HeaderName[] = retry === true ? ['Retry-After'] : [];
  if (status === 401 || status === 403) headers.push('WWW-Authenticate');
  return { status, code, text, content, headers };
}

function headersOf(code: ErrorCode, retry: boolean): HeaderName[] {
  const headers: HeaderName[] = retry ? ['Retry-After'] : [];
  if (CODES_WITH_OFFSET.has(code)) headers.push('Stream-Next-Offset');
  return [...headers, ...(HEADERS_OF_CODE.get(code) ?? [])];
}

const HEADERS_OF_CODE: ReadonlyMap<ErrorCode, readonly HeaderName[]> = new Map<ErrorCode, readonly HeaderName[]>([
  ['UNAUTHORIZED', ['WWW-Authenticate']],
  ['INSUFFICIENT_SCOPE', ['WWW-Authenticate']],
  ['CONTENT_ENCODING', ['Accept-Encoding']],
  ['STREAM_CLOSED', ['Stream-Closed']],
  ['PRODUCER_EPOCH_STALE', ['Producer-Epoch']],
  ['PRODUCER_SEQ_CONFLICT', ['Producer-Expected-Seq', 'Producer-Received-Seq']],
  ['RECORD_PRECONDITION_FAILED', ['Stream-Record-Next', 'Stream-Extensions']],
  ['RECORD_OUT_OF_RANGE', RECORD_RANGE],
  ['STREAM_GONE', RECORD_RANGE],
]);
