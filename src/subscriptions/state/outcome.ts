/** The outcome of a command. */
export type OutcomeCode =
  | 'OK'
  | 'CREATED'
  | 'SUBSCRIPTION_ALREADY_EXISTS'
  | 'SUBSCRIPTION_NOT_FOUND'
  | 'FENCED'
  | 'ALREADY_CLAIMED'
  | 'NO_PENDING_WORK'
  | 'INVALID_OFFSET'
  | 'LIMIT_EXCEEDED'
  /** Nothing changed, and no caller waits for an answer: another record came first. */
  | 'IGNORED';

export interface Outcome {
  readonly code: OutcomeCode;
  /** For the client. */
  readonly message?: string;
}
