/** Refusals of subscription requests, and their JSON. */
import type { ControlAnswer } from '../ports.ts';
import type { Outcome } from '../state/record.ts';

/** Codes beyond the outcomes of commands. */
type RefusalCode =
  | 'INVALID_REQUEST'
  | 'WEBHOOK_URL_REJECTED'
  | 'SUBSCRIPTION_NOT_FOUND'
  | 'TOKEN_INVALID'
  | 'TOKEN_EXPIRED'
  | 'NOT_FOUND'
  | 'INSUFFICIENT_SCOPE'
  | 'SUBSCRIPTIONS_LIMITED'
  | Outcome['code'];

const STATUS: Readonly<Record<RefusalCode, number>> = {
  OK: 200,
  CREATED: 201,
  INVALID_REQUEST: 400,
  WEBHOOK_URL_REJECTED: 400,
  TOKEN_INVALID: 401,
  TOKEN_EXPIRED: 401,
  INSUFFICIENT_SCOPE: 403,
  NOT_FOUND: 404,
  SUBSCRIPTION_NOT_FOUND: 404,
  SUBSCRIPTION_ALREADY_EXISTS: 409,
  FENCED: 409,
  ALREADY_CLAIMED: 409,
  NO_PENDING_WORK: 409,
  INVALID_OFFSET: 409,
  LIMIT_EXCEEDED: 429,
  SUBSCRIPTIONS_LIMITED: 429,
  IGNORED: 409,
};

/** Thrown where a request ends; becomes {"error":{"code":...,"message":...}}. */
export class Refusal extends Error {
  readonly code: RefusalCode;
  /** More members of the error. */
  readonly more: Readonly<Record<string, unknown>>;

  constructor(code: RefusalCode, message: string, more: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = 'Refusal';
    this.code = code;
    this.more = more;
  }
}

/** Refuses a command whose outcome is not one of the expected ones. */
export function refuseUnless(outcome: Outcome, ...good: readonly Outcome['code'][]): void {
  if (!good.includes(outcome.code)) throw new Refusal(outcome.code, outcome.message ?? outcome.code);
}

export function refusalAnswer({ code, message, more }: Refusal): ControlAnswer {
  const answer = { status: STATUS[code], json: { error: { code, message, ...more } } };
  return code === 'SUBSCRIPTIONS_LIMITED' ? { ...answer, retry: true } : answer;
}
