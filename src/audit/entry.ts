/** One line of the audit log. Names of members are what programs read: they stay. */

/**
 * `admin`: a call of the admin plane, whatever came of it. `deleted`: a deletion by a client. `denied`: either plane
 * refused the sender. `tokens`: tokens or keys are others now. `lost`: lines before this one could not be written.
 */
export const AUDIT_EVENTS = ['admin', 'deleted', 'denied', 'tokens', 'lost'] as const;
export type AuditEvent = (typeof AUDIT_EVENTS)[number];

export interface AuditEntry {
  readonly event: AuditEvent;
  /** `token:ID`, `client_token`, `admin_token`, `anonymous`, or `node` for what the node does by itself. */
  readonly who: string;
  /** Address of the sender. */
  readonly from?: string;
  /** The trusted proxy that told it. */
  readonly via?: string;
  readonly plane?: 'client' | 'admin';
  /** Method and route, or method and path where no route was looked for. */
  readonly what: string;
  readonly path?: string;
  /** Parameters of a change that its route reads. */
  readonly parameters?: Readonly<Record<string, string>>;
  readonly bucket?: string;
  readonly stream?: string;
  /** Status of the answer; 0: the sender left before there was one. */
  readonly status?: number;
  /** The code of a refusal. */
  readonly code?: string;
  /** Why a token opens nothing. */
  readonly reason?: string;
  readonly request_id?: string;
  /** So many like this one came after it within the minute; of changes, within the second. */
  readonly repeated?: number;
  /** The id of the token or key that an event `tokens` is about. */
  readonly token?: string;
}

/** The component of these lines, by which they are found in a log with others. */
export const AUDIT_COMPONENT = 'audit';
