/**
 * Which requests leave a line in the audit log, and what it says. On the admin plane those of every row but probes,
 * metrics and documents; on the client plane those that delete or make tokens; on both, requests that are refused for who sends them.
 */
import type { Credentials } from '../access/admission.ts';
import type { SenderAddress } from '../access/senders.ts';
import type { AuditEntry } from '../audit/entry.ts';
import type { AuditTrail } from '../audit/trail.ts';
import { generalCode } from '../base/errors.ts';
import type { HttpContext, RouteTraits } from './context.ts';
import { collect } from './query.ts';
import type { UwsResponse } from './uws.ts';

export type PlaneKind = 'client' | 'admin';

interface AuditedRow {
  readonly methods: readonly string[];
  readonly pattern: string;
  readonly access?: string;
}

/** It gives a token to the holder of another one. */
const NARROWING = '/__svc/tokens';
/** Asked by monitors and by the console's page all the time, and about no tenant's data. */
const ROUTINE: ReadonlySet<string> = new Set([
  ...['/__svc/metrics', '/__svc/metrics/history', '/__svc/openapi.json', '/__svc/leadership-shed', '/__svc/whoami'],
]);

export function isAudited(plane: PlaneKind, { methods, pattern, access }: AuditedRow): boolean {
  if (plane === 'client') return pattern === NARROWING || methods.includes('DELETE') || methods.includes('*');
  return access !== 'open' && access !== 'probe' && !ROUTINE.has(pattern);
}

/** Parameters that say what an operator changes. */
const PARAMETERS: ReadonlySet<string> = new Set(['upto', 'addr', 'voters', 'adopt', 'min_hot_bytes', 'max_bytes']);

/** Names hold up to 1 KiB, and a path may hold anything. */
const PATH_CHARS_MAX = 512;
const METHOD_CHARS_MAX = 16;

/** A request (request.ts). */
interface AuditedCall {
  readonly server: { readonly plane: PlaneKind; readonly ctx: Pick<HttpContext, 'audit' | 'senders'> };
  readonly res: UwsResponse | undefined;
  readonly req: { getUrl(): string; getQuery(): string | undefined };
  readonly headers: { readonly forwardedFor: string };
  readonly method: string;
  readonly route: RouteTraits;
  readonly bucket: string;
  readonly stream: string;
  readonly credentials: Credentials;
  readonly requestId: string;
  readonly responder: { readonly begun: UwsResponse | undefined; readonly code: string };
}

/** The part of a request that is over when its handler has returned. */
export interface AuditedRequest {
  readonly sender: SenderAddress;
  readonly path: string;
  readonly parameters: AuditEntry['parameters'];
  isDenied: boolean;
  /** The id of the token that was given. */
  token?: string;
}

export function askedOf(call: AuditedCall): AuditedRequest {
  const { req } = call;
  const path = req.getUrl().slice(0, PATH_CHARS_MAX);
  return { sender: senderOf(call), path, parameters: parametersOf(req.getQuery() ?? ''), isDenied: false };
}

/** A query may hold a token. */
function parametersOf(query: string): AuditEntry['parameters'] {
  const collected = collect(query.slice(0, PATH_CHARS_MAX), PARAMETERS);
  return collected.ok && collected.value.size > 0 ? Object.fromEntries(collected.value) : undefined;
}

/** Only inside the route handler. */
export function senderOf({ res, headers, server }: AuditedCall): SenderAddress {
  return res === undefined ? { from: '' } : server.ctx.senders.senderOf(res, headers.forwardedFor);
}

type Outcome = Required<Pick<AuditEntry, 'status'>> & Pick<AuditEntry, 'code'>;

/** The request is over. `status` is that of its answer; 0: the sender left before. */
export function leaveLine(call: AuditedCall, asked: AuditedRequest, status: number): void {
  const { server, credentials, route, requestId } = call;
  const outcome = outcomeOf(call, status);
  const { plane, ctx } = server;
  const { sender, path, parameters, token } = asked;
  const method = call.method.slice(0, METHOD_CHARS_MAX).toUpperCase();
  const { pattern } = route;
  const line = {
    ...{ plane, ...whoOf(plane, credentials), ...sender },
    ...{ what: `${method} ${pattern ?? path}`, path, ...(pattern?.includes('{bucket}') === true ? namesOf(call) : {}) },
    ...(parameters === undefined || plane === 'client' ? {} : { parameters }),
    ...{ ...outcome, ...(token === undefined ? {} : { token }), request_id: requestId },
  };
  write(ctx.audit, line, { method, isDenied: asked.isDenied || isDenial(outcome) });
}

type Line = Omit<AuditEntry, 'event'>;

function write(audit: AuditTrail, line: Line, { method, isDenied }: { method: string; isDenied: boolean }): void {
  if (isDenied) return audit.denied({ event: 'denied', ...line });
  if (line.plane === 'client') {
    // Calls about subscriptions come by one row.
    if (method === 'DELETE') audit.changed({ event: 'deleted', ...line });
    else if (line.token !== undefined) audit.changed({ event: 'tokens', ...line });
    return undefined;
  }
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? audit.read({ event: 'admin', ...line }) : audit.changed({ event: 'admin', ...line });
}

function outcomeOf({ res, responder }: AuditedCall, status: number): Outcome {
  if (status < 400) return { status };
  return { status, code: responder.begun === res ? responder.code : generalCode(status) };
}

/** A producer that another one fenced is not refused for who it is, although flat routes say 403. */
function isDenial({ status, code }: Outcome): boolean {
  return status === 401 || (status === 403 && code !== 'PRODUCER_EPOCH_STALE');
}

function namesOf({ bucket, stream }: AuditedCall): Pick<AuditEntry, 'bucket' | 'stream'> {
  return stream === '' ? { bucket } : { bucket, stream };
}

export function whoOf(plane: PlaneKind, credentials: Credentials): Pick<AuditEntry, 'who' | 'reason'> {
  if (typeof credentials === 'object') return { who: `token:${credentials.id}` };
  if (credentials === 'all') return { who: `${plane}_token` };
  return credentials === 'open' ? { who: 'anonymous' } : { who: 'anonymous', reason: credentials };
}
