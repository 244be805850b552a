/**
 * The events of a run and what follows from them, as the DevKit's interface of version 5 declares them, and how they are written: as
 * JSON in which bytes and dates have a tag.
 */
import { asBytes } from './arguments.ts';
import { base64Of, bytesOf } from './base64.ts';
import { isObject } from './resumable-log.ts';

/** `@workflow/world` 5.0.0-beta.21 has it. The DevKit refuses Worlds of any other. */
export const SPEC_VERSION = 5;
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

export type WorkflowRunStatus = 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';

export interface WorkflowRunSeed {
  readonly deploymentId: string;
  readonly workflowName: string;
  readonly input: unknown;
  readonly executionContext?: Record<string, unknown> | undefined;
  readonly attributes?: Record<string, string> | undefined;
  readonly allowReservedAttributes?: true | undefined;
}

export interface WorkflowAttributeChange {
  readonly key: string;
  /** Null removes the key. */
  readonly value: string | null;
}

interface StepPart {
  readonly stepName?: string | undefined;
  readonly workflowName?: string | undefined;
}

/** A run's own events, and those of the step, hook or wait that the correlation ID names. */
export interface WorkflowEventShapes {
  readonly run_created: { eventData: WorkflowRunSeed };
  readonly run_started: { eventData?: Partial<WorkflowRunSeed> | undefined };
  readonly run_completed: { eventData: { output?: unknown } };
  readonly run_failed: { eventData: { error: unknown; errorCode?: string | undefined } };
  readonly run_cancelled: { eventData?: { cancelReason?: string | undefined } | undefined };
  readonly attr_set: {
    eventData: {
      changes: WorkflowAttributeChange[];
      writer: { type: 'workflow' } | { type: 'step'; stepId: string; attempt: number };
      allowReservedAttributes?: true | undefined;
    };
  };
  readonly step_created: { correlationId: string; eventData: StepPart & { stepName: string; input: unknown } };
  readonly step_started: {
    correlationId: string;
    eventData?: (StepPart & { attempt?: number; input?: unknown; ownerMessageId?: string | undefined }) | undefined;
  };
  readonly step_completed: { correlationId: string; eventData: StepPart & { result: unknown } };
  readonly step_failed: { correlationId: string; eventData: StepPart & { error: unknown } };
  readonly step_retrying: {
    correlationId: string;
    eventData: StepPart & { error: unknown; retryAfter?: Date | undefined };
  };
  readonly hook_created: {
    correlationId: string;
    eventData: {
      token: string;
      metadata?: unknown;
      isWebhook?: boolean | undefined;
      isSystem?: boolean | undefined;
    };
  };
  readonly hook_received: { correlationId: string; eventData: { token?: string | undefined; payload: unknown } };
  readonly hook_disposed: { correlationId: string; eventData?: { token?: string | undefined } | undefined };
  readonly hook_conflict: { correlationId: string; eventData: { token: string; conflictingRunId?: string } };
  readonly wait_created: { correlationId: string; eventData: { resumeAt: Date } };
  readonly wait_completed: { correlationId: string; eventData?: { resumeAt?: Date | undefined } | undefined };
}

export type WorkflowEventType = keyof WorkflowEventShapes;

export type RequestOf<T extends WorkflowEventType> = {
  readonly eventType: T;
  readonly correlationId?: string | undefined;
  readonly specVersion?: number | undefined;
} & WorkflowEventShapes[T];

export type EventOf<T extends WorkflowEventType> = RequestOf<T> & {
  readonly runId: string;
  readonly eventId: string;
  readonly createdAt: Date;
  readonly occurredAt?: Date | undefined;
};

export type WorkflowEvent = { [T in WorkflowEventType]: EventOf<T> }[WorkflowEventType];
/** Requests of programs, and `hook_conflict`, which the World makes of a `hook_created`. */
export type WorkflowEventRequest = { [T in WorkflowEventType]: RequestOf<T> }[WorkflowEventType];

/** The fields that runs, steps and waits share. */
interface Recorded {
  readonly runId: string;
  readonly specVersion?: number | undefined;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

interface RunParts extends Recorded {
  readonly deploymentId: string;
  readonly workflowName: string;
  readonly executionContext?: Record<string, unknown> | undefined;
  readonly input?: unknown;
  readonly errorCode?: string | undefined;
  readonly attributes: Record<string, string>;
  readonly startedAt?: Date | undefined;
}

export type WorkflowRun = RunParts &
  (
    | { status: 'pending' | 'running'; output?: undefined; error?: undefined; completedAt?: undefined }
    | { status: 'cancelled'; output?: undefined; error?: undefined; completedAt: Date }
    | { status: 'completed'; output: unknown; error?: undefined; completedAt: Date }
    | { status: 'failed'; output?: undefined; error: unknown; completedAt: Date }
  );

export type WorkflowRunWithoutData = Omit<WorkflowRun, 'input' | 'output'> & { input: undefined; output: undefined };

export interface WorkflowStep extends Recorded {
  readonly stepId: string;
  readonly stepName: string;
  readonly status: WorkflowRunStatus;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
  readonly attempt: number;
  readonly startedAt?: Date | undefined;
  readonly completedAt?: Date | undefined;
  readonly retryAfter?: Date | undefined;
}

export type WorkflowStepWithoutData = Omit<WorkflowStep, 'input' | 'output'> & { input: undefined; output: undefined };

export interface WorkflowHook {
  readonly runId: string;
  readonly hookId: string;
  readonly token: string;
  readonly ownerId: string;
  readonly projectId: string;
  readonly environment: string;
  readonly metadata?: unknown;
  readonly createdAt: Date;
  readonly specVersion?: number | undefined;
  readonly isWebhook: boolean;
  readonly isSystem: boolean;
}

export interface WorkflowWait extends Recorded {
  readonly waitId: string;
  readonly status: 'waiting' | 'completed';
  readonly resumeAt: Date;
  readonly completedAt?: Date | undefined;
}

/** The DevKit knows errors by their names. */
export class WorkflowWorldError extends Error {
  /** Seconds, of `TooEarlyError`. */
  readonly retryAfter?: number;
  readonly status?: number;

  constructor(name: string, message: string, fields: { retryAfter?: number; status?: number } = {}) {
    super(message);
    this.name = name;
    Object.assign(this, fields);
  }
}

export function textOf(value: unknown): string {
  return JSON.stringify(tagged(value));
}

/** The type is what the World wrote; `RunLog` checks what it depends on. */
export function valueOf<T>(text: string): T {
  const value: T = JSON.parse(text, (_key, part: unknown) => untagged(part));
  return value;
}

function tagged(value: unknown): unknown {
  if (!isObject(value)) return value;
  const bytes = asBytes(value);
  if (bytes !== undefined) return { $bytes: base64Of(bytes) };
  if (value instanceof Date) return { $date: value.toISOString() };
  if (Array.isArray(value)) return value.map(tagged);
  if ('toJSON' in value && typeof value.toJSON === 'function') return tagged(value.toJSON());
  // JSON leaves out what is undefined: it must not hide what looks like a tag.
  const entries = Object.entries(value)
    .map(([key, part]: readonly [string, unknown]) => [key, tagged(part)])
    .filter(([, part]) => part !== undefined);
  return entries.length === 1 && String(entries[0]?.[0]).startsWith('$')
    ? { $entries: entries }
    : Object.fromEntries(entries);
}

function untagged(part: unknown): unknown {
  if (!isObject(part) || Object.keys(part).length !== 1) return part;
  try {
    if ('$bytes' in part && typeof part.$bytes === 'string') return bytesOf(part.$bytes);
    if ('$date' in part && typeof part.$date === 'string') return new Date(part.$date);
    if ('$entries' in part && Array.isArray(part.$entries)) return Object.fromEntries(part.$entries);
  } catch {
    // A stranger wrote it, and what else is there must stay readable.
  }
  return part;
}

/** A ULID. Those of a run rise with their ordinals, also within a millisecond. */
export function ulidOf(date: Date, ordinal = Math.floor(Math.random() * 2 ** 30)): string {
  const random = [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => ALPHABET.charAt(byte % 32));
  return base32Of(date.getTime(), 10) + base32Of(ordinal, 6) + random.join('');
}

function base32Of(value: number, digits: number): string {
  let text = '';
  for (let rest = value; text.length < digits; rest = Math.floor(rest / 32)) text = ALPHABET.charAt(rest % 32) + text;
  return text;
}
