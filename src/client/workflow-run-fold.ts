/**
 * The states of a run and of its steps, hooks and waits, as they follow from its events. A rule for each kind of event says where it
 * is allowed, and what it makes of the state. Nothing here reads a clock or asks a node, so that all processes come to the same.
 */
import { isObject } from './resumable-log.ts';
import {
  type EventOf,
  type RequestOf,
  SPEC_VERSION,
  type WorkflowAttributeChange,
  type WorkflowEvent,
  type WorkflowEventRequest,
  type WorkflowEventType,
  type WorkflowHook,
  type WorkflowRun,
  type WorkflowStep,
  type WorkflowWait,
  WorkflowWorldError,
  ulidOf,
} from './workflow-events.ts';

/** Limits of the DevKit: characters, bytes of UTF-8, keys of a run. */
const KEY_CHARS_MAX = 256;
const VALUE_BYTES_MAX = 256;
const ATTRIBUTES_MAX = 64;

export interface RunState {
  run: WorkflowRun | undefined;
  readonly events: WorkflowEvent[];
  readonly steps: Map<string, WorkflowStep>;
  /** Disposed ones too, as an ID is used once. */
  readonly hooks: Map<string, { readonly hook: WorkflowHook; readonly isDisposed: boolean }>;
  readonly waits: Map<string, WorkflowWait>;
  /** IDs of hooks that got no token, and of changes of attributes by the workflow. */
  readonly others: Set<string>;
}

interface Rule<T extends WorkflowEventType> {
  /** Throws where it is not allowed. False: it is done already, and nothing is appended. */
  check(state: RunState, request: RequestOf<T>, at: Date): boolean;
  apply(state: RunState, event: EventOf<T>): void;
}

export function emptyRun(): RunState {
  return { run: undefined, events: [], steps: new Map(), hooks: new Map(), waits: new Map(), others: new Set() };
}

export function isEnded(run: WorkflowRun): boolean {
  return run.status !== 'pending' && run.status !== 'running';
}

/** Undefined: it was never there, or is disposed, or its run has ended, which gives its token back. */
export function liveHook({ run, hooks }: RunState, hookId: string): WorkflowHook | undefined {
  const known = hooks.get(hookId);
  return run === undefined || isEnded(run) || known?.isDisposed === true ? undefined : known?.hook;
}

/** A rule needs its kind, and the events behind it need its date. */
function isKnownEvent(event: unknown): boolean {
  if (!isObject(event) || !('eventType' in event) || !('createdAt' in event)) return false;
  const { eventType, createdAt } = event;
  return Object.hasOwn(RULES, String(eventType)) && createdAt instanceof Date && Number.isFinite(createdAt.getTime());
}

/** Throws where an event is malformed, or of another kind. */
export function applyEvent<T extends WorkflowEventType>(state: RunState, event: EventOf<T> & WorkflowEvent): void {
  if (!isKnownEvent(event)) throw new TypeError('it is no event');
  const rule: Rule<T> = RULES[event.eventType];
  rule.apply(state, event);
  state.events.push(event);
}

export interface Moment {
  readonly runId: string;
  readonly at: Date;
  readonly occurredAt?: Date | undefined;
}

/** The events to append: none where the request is done already. Throws where it is not allowed. */
export function decide(state: RunState, request: WorkflowEventRequest, moment: Moment): readonly WorkflowEvent[] {
  const version = state.run?.specVersion ?? request.specVersion ?? SPEC_VERSION;
  if (version > SPEC_VERSION || version < 2) {
    const sentence = `the run has spec version ${version}, and this World is of ${SPEC_VERSION}`;
    throw new WorkflowWorldError('RunNotSupportedError', sentence);
  }
  const [first, ...rest] = partsOf(state, request);
  if (!check(state, first, moment)) return [];
  const last = state.events.at(-1)?.createdAt.getTime() ?? 0;
  // The clocks of processes differ, and the order of a run's events is that of its stream.
  const createdAt = new Date(Math.max(moment.at.getTime(), last));
  return [first, ...rest].map((part, i) => ({
    ...part,
    specVersion: part.specVersion ?? SPEC_VERSION,
    runId: moment.runId,
    eventId: `evnt_${ulidOf(createdAt, state.events.length + i)}`,
    createdAt,
    ...(moment.occurredAt === undefined ? {} : { occurredAt: moment.occurredAt }),
  }));
}

function check<T extends WorkflowEventType>(state: RunState, request: RequestOf<T>, { runId, at }: Moment): boolean {
  if (state.run === undefined && request.eventType !== 'run_created')
    throw new WorkflowWorldError('WorkflowRunNotFoundError', `Workflow run "${runId}" not found`, { status: 404 });
  const rule: Rule<T> = RULES[request.eventType];
  return rule.check(state, request, at);
}

/** A start may make its run or step at once: then both events are appended together, and the first decides. */
function partsOf(
  state: RunState,
  request: WorkflowEventRequest,
): readonly [WorkflowEventRequest, ...WorkflowEventRequest[]] {
  const { specVersion } = request;
  if (request.eventType === 'run_started') {
    const { eventData, ...start } = request;
    const { deploymentId, workflowName, input } = eventData ?? {};
    if (state.run !== undefined || deploymentId === undefined || workflowName === undefined || input === undefined)
      return [start];
    const seed = { ...eventData, deploymentId, workflowName, input };
    return [{ eventType: 'run_created', specVersion, eventData: seed }, start];
  }
  if (request.eventType !== 'step_started') return [request];
  const { correlationId, eventData = {} } = request;
  const { input, ...rest } = eventData;
  const { stepName, workflowName } = rest;
  if (stepName === undefined || input === undefined) return [request];
  const created = { stepName, workflowName, input };
  return [
    { eventType: 'step_created', correlationId, specVersion, eventData: created },
    { ...request, eventData: rest },
  ];
}

function conflict(sentence: string): WorkflowWorldError {
  return new WorkflowWorldError('EntityConflictError', sentence, { status: 409 });
}

/** The run is there, as `check` saw. */
function requireLive({ run }: RunState): void {
  if (run !== undefined && isEnded(run)) throw conflict(`the run is in the terminal state "${run.status}"`);
}

function requireStep({ run, steps }: RunState, stepId: string): WorkflowStep {
  const step = steps.get(stepId);
  if (step === undefined)
    throw new WorkflowWorldError('WorkflowWorldError', `Step "${stepId}" not found`, { status: 404 });
  if (step.status === 'completed' || step.status === 'failed')
    throw conflict(`step "${stepId}" is in the terminal state "${step.status}"`);
  if (run !== undefined && isEnded(run) && step.status !== 'running')
    throw new WorkflowWorldError('RunExpiredError', `the run is in the terminal state "${run.status}"`);
  return step;
}

function requireHook(state: RunState, hookId: string): void {
  if (liveHook(state, hookId) === undefined)
    throw new WorkflowWorldError('HookNotFoundError', `Hook "${hookId}" not found`, { status: 404 });
}

/** The attributes afterwards. Throws where a change, or their number, is not allowed. */
function attributesOf(
  before: Readonly<Record<string, string>>,
  changes: readonly WorkflowAttributeChange[],
  mayReserve = false,
): Record<string, string> {
  const after = new Map(Object.entries(before));
  const seen = new Set<string>();
  for (const { key, value } of changes) {
    const name = JSON.stringify(key.slice(0, 32));
    if (key === '' || key.length > KEY_CHARS_MAX)
      throw wrongAttribute(`key ${name} has not 1 to ${KEY_CHARS_MAX} characters`);
    if (key.startsWith('$') && !mayReserve) throw wrongAttribute(`key ${name} begins with "$", which is reserved`);
    if (seen.has(key)) throw wrongAttribute(`key ${name} is there twice`);
    if (value !== null && new TextEncoder().encode(value).length > VALUE_BYTES_MAX)
      throw wrongAttribute(`the value of ${name} has more than ${VALUE_BYTES_MAX} bytes`);
    seen.add(key);
    if (value === null) after.delete(key);
    else after.set(key, value);
  }
  if (after.size > ATTRIBUTES_MAX) throw wrongAttribute(`a run has at most ${ATTRIBUTES_MAX} keys`);
  return Object.fromEntries(after);
}

function wrongAttribute(sentence: string): WorkflowWorldError {
  return new WorkflowWorldError('AttributeValidationError', sentence, { status: 400 });
}

/** Ends the run, unless it has ended. */
function ending<T extends 'run_completed' | 'run_failed' | 'run_cancelled'>(
  end: (run: WorkflowRun, event: EventOf<T>) => WorkflowRun,
): Rule<T> {
  return {
    check: (state, { eventType }) => {
      if (eventType === 'run_cancelled' && state.run?.status === 'cancelled') return false;
      requireLive(state);
      return true;
    },
    apply: (state, event) => {
      if (state.run !== undefined) state.run = { ...end(state.run, event), updatedAt: event.createdAt };
    },
  };
}

/** Changes a step that is there and has not ended. */
function ofStep<T extends 'step_started' | 'step_completed' | 'step_failed' | 'step_retrying'>(
  change: (step: WorkflowStep, event: EventOf<T>) => Partial<WorkflowStep>,
): Rule<T> {
  return {
    check: (state, { eventType, correlationId }, at) => {
      const { retryAfter } = requireStep(state, correlationId);
      const earlyMs = eventType === 'step_started' && retryAfter !== undefined ? Number(retryAfter) - Number(at) : 0;
      if (earlyMs <= 0) return true;
      const fields = { retryAfter: Math.ceil(earlyMs / 1000), status: 425 };
      throw new WorkflowWorldError('TooEarlyError', `step "${correlationId}" is to start later`, fields);
    },
    apply: ({ steps }, event) => {
      const step = steps.get(event.correlationId);
      if (step !== undefined) steps.set(step.stepId, { ...step, ...change(step, event), updatedAt: event.createdAt });
    },
  };
}

const RULES: { readonly [T in WorkflowEventType]: Rule<T> } = {
  run_created: {
    check: ({ run }, { eventData: { attributes = {}, allowReservedAttributes } }) => {
      if (run !== undefined) throw conflict(`Workflow run "${run.runId}" already exists`);
      const changes = Object.entries(attributes).map(([key, value]) => ({ key, value }));
      attributesOf({}, changes, allowReservedAttributes);
      return true;
    },
    apply: (state, { runId, specVersion, createdAt, eventData }) => {
      const { deploymentId, workflowName, input, executionContext, attributes = {} } = eventData;
      const seed = { deploymentId, workflowName, input, executionContext, attributes };
      state.run = { runId, specVersion, ...seed, status: 'pending', createdAt, updatedAt: createdAt };
    },
  },
  run_started: {
    check: ({ run }) => {
      if (run !== undefined && isEnded(run))
        throw new WorkflowWorldError('RunExpiredError', `the run is in the terminal state "${run.status}"`);
      return run?.status !== 'running';
    },
    apply: (state, { createdAt }) => {
      if (state.run?.status === 'pending')
        state.run = { ...state.run, status: 'running', startedAt: createdAt, updatedAt: createdAt };
    },
  },
  run_completed: ending((run, { createdAt, eventData: { output } }) => ({
    ...run,
    status: 'completed',
    output,
    error: undefined,
    completedAt: createdAt,
  })),
  run_failed: ending((run, { createdAt, eventData: { error, errorCode } }) => ({
    ...run,
    status: 'failed',
    output: undefined,
    error,
    errorCode,
    completedAt: createdAt,
  })),
  run_cancelled: ending((run, { createdAt }) => ({
    ...run,
    status: 'cancelled',
    output: undefined,
    error: undefined,
    completedAt: createdAt,
  })),
  attr_set: {
    check: (state, { correlationId = '', eventData: { changes, writer, allowReservedAttributes } }) => {
      requireLive(state);
      attributesOf(state.run?.attributes ?? {}, changes, allowReservedAttributes);
      if (writer.type === 'workflow' && state.others.has(correlationId))
        throw conflict(`attribute event "${correlationId}" already exists`);
      return true;
    },
    apply: (state, { correlationId, createdAt, eventData: { changes, writer } }) => {
      if (writer.type === 'workflow' && correlationId !== undefined) state.others.add(correlationId);
      if (state.run === undefined) return;
      const attributes = attributesOf(state.run.attributes, changes, true);
      state.run = { ...state.run, attributes, updatedAt: createdAt };
    },
  },
  step_created: {
    check: (state, { correlationId }) => {
      requireLive(state);
      if (state.steps.has(correlationId)) throw conflict(`step "${correlationId}" already created`);
      return true;
    },
    apply: ({ steps }, { runId, correlationId: stepId, specVersion, createdAt, eventData: { stepName, input } }) => {
      const times = { createdAt, updatedAt: createdAt };
      steps.set(stepId, { runId, stepId, stepName, status: 'pending', input, attempt: 0, specVersion, ...times });
    },
  },
  step_started: ofStep(({ startedAt, attempt }, { createdAt }) => ({
    status: 'running',
    startedAt: startedAt ?? createdAt,
    attempt: attempt + 1,
    retryAfter: undefined,
  })),
  step_completed: ofStep((_step, { createdAt, eventData: { result } }) => ({
    status: 'completed',
    output: result,
    completedAt: createdAt,
  })),
  step_failed: ofStep((_step, { createdAt, eventData: { error } }) => ({
    status: 'failed',
    error,
    completedAt: createdAt,
  })),
  step_retrying: ofStep((_step, { eventData: { error, retryAfter } }) => ({ status: 'pending', error, retryAfter })),
  hook_created: {
    check: (state, { correlationId }) => {
      requireLive(state);
      if (state.hooks.has(correlationId) || state.others.has(correlationId))
        throw conflict(`hook "${correlationId}" already created`);
      return true;
    },
    apply: ({ hooks }, { runId, correlationId: hookId, specVersion, createdAt, eventData }) => {
      const { token, metadata, isWebhook = false, isSystem = false } = eventData;
      const owner = { ownerId: 'millrace', projectId: 'millrace', environment: 'millrace' };
      const hook = { runId, hookId, token, ...owner, metadata, createdAt, specVersion, isWebhook, isSystem };
      hooks.set(hookId, { hook, isDisposed: false });
    },
  },
  hook_received: {
    check: (state, { correlationId }) => {
      requireHook(state, correlationId);
      return true;
    },
    apply: () => undefined,
  },
  hook_disposed: {
    check: (state, { correlationId }) => {
      if (state.hooks.get(correlationId)?.isDisposed === true)
        throw conflict(`hook "${correlationId}" already disposed`);
      requireHook(state, correlationId);
      return true;
    },
    apply: ({ hooks }, { correlationId }) => {
      const known = hooks.get(correlationId);
      if (known !== undefined) hooks.set(correlationId, { ...known, isDisposed: true });
    },
  },
  hook_conflict: {
    check: (state, request, at) => RULES.hook_created.check(state, { ...request, eventType: 'hook_created' }, at),
    apply: ({ others }, { correlationId }) => void others.add(correlationId),
  },
  wait_created: {
    check: (state, { correlationId }) => {
      requireLive(state);
      if (state.waits.has(correlationId)) throw conflict(`wait "${correlationId}" already exists`);
      return true;
    },
    apply: ({ waits }, { runId, correlationId, specVersion, createdAt, eventData: { resumeAt } }) => {
      const waitId = `${runId}-${correlationId}`;
      const times = { resumeAt, createdAt, updatedAt: createdAt };
      waits.set(correlationId, { waitId, runId, status: 'waiting', specVersion, ...times });
    },
  },
  wait_completed: {
    check: (state, { correlationId }) => {
      requireLive(state);
      const wait = state.waits.get(correlationId);
      if (wait?.status === 'waiting') return true;
      if (wait !== undefined) throw conflict(`wait "${correlationId}" already completed`);
      throw new WorkflowWorldError('WorkflowWorldError', `Wait "${correlationId}" not found`, { status: 404 });
    },
    apply: ({ waits }, { correlationId, createdAt }) => {
      const wait = waits.get(correlationId);
      if (wait !== undefined)
        waits.set(correlationId, { ...wait, status: 'completed', completedAt: createdAt, updatedAt: createdAt });
    },
  },
};
