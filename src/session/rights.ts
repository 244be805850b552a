/**
 * The rights with which a session was opened: each of its frames is held against them, as HTTP's requests are. What the
 * audit log tells of HTTP's requests it tells of these.
 */
import type { Credentials } from '../access/admission.ts';
import type { GrantHolder } from '../access/grant-holders.ts';
import type { LimitRefusal } from '../access/meter.ts';
import { RequestMeters } from '../access/request-meters.ts';
import { streamRefusal } from '../access/scope-refusals.ts';
import type { Grant } from '../access/scopes.ts';
import type { SenderAddress } from '../access/senders.ts';
import type { AuditEntry } from '../audit/entry.ts';
import { accountOf, namesOf, whoOf } from '../audit/requests.ts';
import { type ErrorCode, ERRORS, type RefusalReason } from '../base/errors.ts';
import { countRefusal, grantOf } from '../http/scope-gate.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import type { StreamName } from '../protocol/flat-path.ts';
import type { Frame } from './frame.ts';
import { rightOf } from './operations.ts';

/** Why a session takes nothing any more. HTTP refuses an expired token alike. */
export const STOPPING: RefusalReason = { code: 'STOPPING', detail: '' };
export const EXPIRED: RefusalReason = { code: 'UNAUTHORIZED', detail: 'the token has expired' };

/** How a session came about. */
export interface SessionOpening {
  readonly requestId: string;
  readonly credentials: Credentials;
  readonly sender: SenderAddress;
}

export class SessionRights {
  /** Undefined: all rights. */
  readonly #grant: Grant | undefined;
  readonly #server: HttpServerContext;
  readonly #opening: SessionOpening;
  /** Used for the frame that is taken. It counts for its token first, and for the bucket if the token allows it. */
  readonly #meters: RequestMeters;

  constructor(server: HttpServerContext, opening: SessionOpening) {
    this.#grant = grantOf(opening.credentials);
    this.#server = server;
    this.#opening = opening;
    this.#meters = new RequestMeters(server.limits);
  }

  /** The token has expired. */
  get isOver(): boolean {
    return this.#grant !== undefined && this.#server.holders.isOver(this.#grant);
  }

  /** The session hears when they end. */
  hold(session: GrantHolder): void {
    this.#server.holders.hold(this.#opening.credentials, session);
  }

  release(session: GrantHolder): void {
    this.#server.holders.release(this.#opening.credentials, session);
  }

  /** The refusal of what is no name, of what the token does not allow, or of what is too much; undefined: it may be done. */
  refuses(frame: Frame, nowMs: number): RefusalReason | LimitRefusal | undefined {
    const meters = this.#meters;
    const { credentials } = this.#opening;
    const limited = meters.begin(credentials, nowMs);
    const refusal = limited ?? misnamed(frame) ?? this.#forbids(frame) ?? meters.enter(frame.bucket, nowMs);
    if (refusal === undefined) meters.spend(frame.size);
    return refusal;
  }

  /** Bytes of an answer. */
  spend({ bucket }: StreamName, bytes: number): void {
    this.#meters.follow(this.#opening.credentials, bucket);
    this.#meters.spend(bytes);
  }

  /** The meters of what follows a stream of the bucket, for as long as it does. */
  metersOf(bucket: string): RequestMeters {
    const meters = new RequestMeters(this.#server.limits);
    meters.follow(this.#opening.credentials, bucket);
    return meters;
  }

  #forbids(frame: Frame): RefusalReason | undefined {
    if (this.#grant === undefined) return undefined;
    const refusal = this.#refusalOf(this.#grant, frame);
    if (refusal !== undefined) {
      const { ctx } = this.#server;
      const line = { ...this.#line(rightOf(frame), frame), ...outcomeOf(refusal.code) };
      ctx.audit.denied({ event: 'denied', ...line }, accountOf(this.#opening.credentials));
    }
    return refusal;
  }

  /** A deletion is over. */
  deleted(target: StreamName, code: ErrorCode): void {
    const line = { ...this.#line('delete', target), ...outcomeOf(code) };
    this.#server.ctx.audit.changed({ event: 'deleted', ...line }, accountOf(this.#opening.credentials));
  }

  #refusalOf(grant: Grant, frame: Frame): RefusalReason | undefined {
    const { ctx } = this.#server;
    const { access } = ctx.metrics;
    // The session is about to end, but the timer that ends it may be late.
    if (this.isOver) {
      access.expired++;
      return EXPIRED;
    }
    const refusal = streamRefusal(grant, rightOf(frame), frame.bucket, frame.stream);
    if (refusal !== undefined) countRefusal(access, refusal.code);
    return refusal;
  }

  #line(operation: string, { bucket, stream }: StreamName): Omit<AuditEntry, 'event'> {
    const { requestId, credentials, sender } = this.#opening;
    const { plane } = this.#server;
    const what = `session ${operation}`;
    const names = namesOf({ bucket, stream });
    return { plane, ...whoOf(plane, credentials), ...sender, what, ...names, request_id: requestId };
  }
}

function misnamed({ target: { fault } }: Frame): RefusalReason | undefined {
  return fault === undefined ? undefined : { code: 'INVALID_NAME', detail: fault };
}

function outcomeOf(code: ErrorCode): Pick<AuditEntry, 'status' | 'code'> {
  return code === 'OK' ? { status: 204 } : { status: ERRORS[code].bucketed, code };
}
