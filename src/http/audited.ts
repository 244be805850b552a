/** A request in the audit log: its beginning is kept in the route handler, and its end leaves a line. */
import type { Credentials } from '../access/admission.ts';
import type { ForwardedHeaders, SenderAddress } from '../access/senders.ts';
import type { AuditEntry } from '../audit/entry.ts';
import { PARAMETERS, PATH_CHARS_MAX, type PlaneKind, accountOf, leave, namesOf, whoOf } from '../audit/requests.ts';
import { generalCode } from '../base/errors.ts';
import type { HttpContext, RouteTraits } from './context.ts';
import { collect } from '../protocol/query-string.ts';
import type { UwsResponse } from './uws.ts';

/** A path stands in its own member as well. */
const WHAT_CHARS_MAX = 128;
const METHOD_CHARS_MAX = 16;

/** A request (request.ts). */
interface AuditedCall {
  readonly server: { readonly plane: PlaneKind; readonly ctx: Pick<HttpContext, 'audit' | 'senders'> };
  readonly res: UwsResponse | undefined;
  readonly req: { getUrl(): string; getQuery(): string | undefined };
  readonly headers: ForwardedHeaders;
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

/** A query may hold a token. Each is looked for by itself, as its route does: others hide none by being malformed. */
function parametersOf(query: string): AuditEntry['parameters'] {
  if (query === '') return undefined;
  const found = [...PARAMETERS].flatMap((name) => {
    const collected = collect(query, new Set([name]));
    const value = collected.ok ? collected.value.get(name) : undefined;
    return value === undefined ? [] : [[name, value.slice(0, PATH_CHARS_MAX)] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** Only inside the route handler. */
export function senderOf({ res, headers, server }: AuditedCall): SenderAddress {
  return res === undefined ? { from: '' } : server.ctx.senders.senderOf(res, headers);
}

type Outcome = Required<Pick<AuditEntry, 'status'>> & Pick<AuditEntry, 'code'>;

/** The request is over. `status` is that of its answer; 0: the sender left before. */
export function leaveLine(call: AuditedCall, asked: AuditedRequest, status: number): void {
  const { server, credentials, route, requestId } = call;
  const { plane, ctx } = server;
  const { sender, path, parameters, token } = asked;
  const method = call.method.slice(0, METHOD_CHARS_MAX).toUpperCase();
  const { pattern, operation } = route;
  const line = {
    ...{ plane, ...whoOf(plane, credentials), ...sender },
    ...{
      what: `${method} ${pattern ?? path.slice(0, WHAT_CHARS_MAX)}`,
      path,
      ...(pattern?.includes('{bucket}') === true ? namesOf(call) : {}),
    },
    ...(parameters === undefined || plane === 'client' ? {} : { parameters }),
    ...{ ...outcomeOf(call, status), ...(token === undefined ? {} : { token }), request_id: requestId },
  };
  leave(ctx.audit, line, { method, operation, isDenied: asked.isDenied, account: accountOf(credentials) });
}

function outcomeOf({ res, responder }: AuditedCall, status: number): Outcome {
  if (status < 400) return { status };
  return { status, code: responder.begun === res ? responder.code : generalCode(status) };
}
