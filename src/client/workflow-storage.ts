/** The storage of a World: events are created here, and all else is looked up in the states that follow from them. */
import { refusal } from './resumable-log.ts';
import {
  type RequestOf,
  type WorkflowEvent,
  type WorkflowEventRequest,
  type WorkflowEventType,
  type WorkflowHook,
  type WorkflowRun,
  type WorkflowRunStatus,
  type WorkflowRunWithoutData,
  type WorkflowStep,
  type WorkflowStepWithoutData,
  type WorkflowWait,
  WorkflowWorldError,
  ulidOf,
} from './workflow-events.ts';
import { type WorkflowPage, type WorkflowPagination, pageOf, pageOfAll, placesOf } from './workflow-pages.ts';
import { type Moment, type RunState, decide, isEnded, liveHook } from './workflow-run-fold.ts';
import type { RunLog, WorkflowRuns } from './workflow-runs.ts';

/** A page of a run's events, so that a replay asks once. */
const EVENTS_PAGE = 1000;

export interface WorkflowResolve {
  /** `none`: without inputs, outputs and payloads. */
  readonly resolveData?: 'all' | 'none' | undefined;
}

interface Bare {
  readonly resolveData: 'none';
}

interface Whole {
  readonly resolveData?: 'all' | undefined;
}

export interface WorkflowListing {
  readonly pagination?: WorkflowPagination | undefined;
}

export interface WorkflowRunFilter extends WorkflowListing {
  readonly workflowName?: string | undefined;
  readonly status?: WorkflowRunStatus | undefined;
}

export interface WorkflowOfRun extends WorkflowListing {
  readonly runId: string;
}

export interface WorkflowCreateParams extends WorkflowResolve {
  readonly occurredAt?: Date | undefined;
  /** A cursor of `events.list`: the end of a step brings what came behind it. */
  readonly sinceCursor?: string | undefined;
  /** The start of a run does not bring its events. */
  readonly skipPreload?: boolean | undefined;
}

export interface WorkflowCreated {
  /** Left out where the request was done before. */
  readonly event?: WorkflowEvent;
  readonly run?: WorkflowRun;
  readonly step?: WorkflowStep;
  readonly hook?: WorkflowHook;
  readonly wait?: WorkflowWait;
  readonly events?: WorkflowEvent[];
  /** Those of the events. */
  readonly cursor?: string | null;
  readonly hasMore?: boolean;
  /** The start made its step, so its caller is the one to run it. */
  readonly stepCreated?: boolean;
}

export type WorkflowRequest = Exclude<WorkflowEventRequest, RequestOf<'hook_conflict'>>;

/** Fields that are left out of events. */
const PAYLOADS: Partial<Record<WorkflowEventType, string>> = {
  run_created: 'input',
  run_completed: 'output',
  run_failed: 'error',
  step_created: 'input',
  step_completed: 'result',
  step_failed: 'error',
  step_retrying: 'error',
  hook_created: 'metadata',
  hook_received: 'payload',
};

export class WorkflowRunsView {
  readonly #runs: WorkflowRuns;

  constructor(runs: WorkflowRuns) {
    this.#runs = runs;
  }

  async get(id: string, params: Bare): Promise<WorkflowRunWithoutData>;
  async get(id: string, params?: Whole): Promise<WorkflowRun>;
  async get(id: string, params?: WorkflowResolve): Promise<WorkflowRun | WorkflowRunWithoutData>;
  async get(id: string, params: WorkflowResolve = {}): Promise<WorkflowRun | WorkflowRunWithoutData> {
    const { run } = await this.#runs.of(id).read();
    if (run === undefined) throw notFound(`Workflow run "${id}"`, 'WorkflowRunNotFoundError');
    return resolved(run, params);
  }

  async list(params: WorkflowRunFilter & Bare): Promise<WorkflowPage<WorkflowRunWithoutData>>;
  async list(params?: WorkflowRunFilter & Whole): Promise<WorkflowPage<WorkflowRun>>;
  async list(params?: WorkflowRunFilter & WorkflowResolve): Promise<WorkflowPage<WorkflowRun | WorkflowRunWithoutData>>;
  /** The newest first. For a status the streams of all runs are read that are not known to have ended. */
  async list({ workflowName, status, pagination, ...params }: WorkflowRunFilter & WorkflowResolve = {}): Promise<
    WorkflowPage<WorkflowRun | WorkflowRunWithoutData>
  > {
    const listed = await this.#runs.listed();
    const { limit, places, behind } = placesOf(listed.length, pagination, 'desc');
    const picked = places.flatMap((place) => {
      const run = listed[place];
      if (run === undefined || (workflowName !== undefined && run.workflowName !== workflowName)) return [];
      const end = this.#runs.endOf(run.runId);
      return status === undefined || end === undefined || end === status ? [{ place, runId: run.runId }] : [];
    });
    const data: (WorkflowRun | WorkflowRunWithoutData)[] = [];
    let cursor = pagination?.cursor ?? null;
    let n = 0;
    for await (const { run } of this.#runs.states(picked.map(({ runId }) => runId))) {
      const place = picked[n++]?.place ?? 0;
      if (run === undefined || (status !== undefined && run.status !== status)) continue;
      if (data.length === limit) return { data, cursor, hasMore: true };
      data.push(resolved(run, params));
      cursor = behind(place);
    }
    return { data, cursor, hasMore: false };
  }
}

export class WorkflowStepsView {
  readonly #runs: WorkflowRuns;

  constructor(runs: WorkflowRuns) {
    this.#runs = runs;
  }

  async get(runId: string, stepId: string, params: Bare): Promise<WorkflowStepWithoutData>;
  async get(runId: string, stepId: string, params?: Whole): Promise<WorkflowStep>;
  async get(runId: string, stepId: string, params?: WorkflowResolve): Promise<WorkflowStep | WorkflowStepWithoutData>;
  async get(
    runId: string,
    stepId: string,
    params: WorkflowResolve = {},
  ): Promise<WorkflowStep | WorkflowStepWithoutData> {
    const step = (await this.#runs.of(runId).read()).steps.get(stepId);
    if (step === undefined) throw notFound(`Step "${stepId}" of run "${runId}"`);
    return resolved(step, params);
  }

  async list(params: WorkflowOfRun & Bare): Promise<WorkflowPage<WorkflowStepWithoutData>>;
  async list(params: WorkflowOfRun & Whole): Promise<WorkflowPage<WorkflowStep>>;
  async list(params: WorkflowOfRun & WorkflowResolve): Promise<WorkflowPage<WorkflowStep | WorkflowStepWithoutData>>;
  /** The newest first. */
  async list({
    runId,
    pagination,
    ...params
  }: WorkflowOfRun & WorkflowResolve): Promise<WorkflowPage<WorkflowStep | WorkflowStepWithoutData>> {
    const { steps } = await this.#runs.of(runId).read();
    return mapped(pageOf([...steps.values()], pagination, 'desc'), (step) => resolved(step, params));
  }
}

export class WorkflowHooksView {
  readonly #runs: WorkflowRuns;

  constructor(runs: WorkflowRuns) {
    this.#runs = runs;
  }

  /** Without its run, which the streams of all runs are read for. */
  async get(hookId: string, params: WorkflowResolve = {}): Promise<WorkflowHook> {
    const pagination = { limit: 1, sortOrder: 'desc' } as const;
    const { data } = await pageOfAll(this.#runs, (state) => [liveHook(state, hookId)], pagination);
    const hook = data[0];
    if (hook === undefined) throw notFound(`Hook "${hookId}"`, 'HookNotFoundError');
    return withoutMetadata(hook, params);
  }

  async getByToken(token: string, params: WorkflowResolve = {}): Promise<WorkflowHook> {
    const claim = await this.#runs.claimOf(token);
    const hook = claim === undefined ? undefined : liveHook(await this.#runs.of(claim.runId).read(), claim.hookId);
    if (hook === undefined) throw notFound(`Hook with the token "${token}"`, 'HookNotFoundError');
    return withoutMetadata(hook, params);
  }

  /** Those that are not disposed, the oldest first, of one run or of all. */
  async list({
    runId,
    pagination,
    ...params
  }: Partial<WorkflowOfRun> & WorkflowResolve): Promise<WorkflowPage<WorkflowHook>> {
    const hooksOf = (state: RunState): (WorkflowHook | undefined)[] =>
      [...state.hooks.keys()].map((hookId) => liveHook(state, hookId));
    const page =
      runId === undefined
        ? await pageOfAll(this.#runs, hooksOf, pagination)
        : pageOf(hooksOf(await this.#runs.of(runId).read()), pagination);
    return mapped(page, (hook) => withoutMetadata(hook, params));
  }
}

export class WorkflowEventsView {
  readonly #runs: WorkflowRuns;

  constructor(runs: WorkflowRuns) {
    this.#runs = runs;
  }

  /** Null makes the ID of a new run. */
  async create(
    givenId: string | null,
    request: WorkflowRequest,
    params: WorkflowCreateParams = {},
  ): Promise<WorkflowCreated> {
    const at = new Date();
    const runId = givenId ?? (request.eventType === 'run_created' ? `wrun_${ulidOf(at)}` : '');
    if (runId === '') throw refusal('INVALID_ARGUMENT', `an event "${request.eventType}" needs the ID of its run`);
    const log = this.#runs.of(runId);
    const moment = { runId, at, occurredAt: params.occurredAt };
    if (request.eventType === 'run_created' || request.eventType === 'run_started') {
      const { workflowName } = request.eventData ?? {};
      const isNew = request.eventType === 'run_created' || (await log.read()).run === undefined;
      if (isNew && workflowName !== undefined) await this.#runs.enlist({ runId, workflowName });
    }
    const appended = request.eventType === 'hook_created' ? await this.#claimed(log, request, moment) : request;
    const created = await log.transact(appended, moment, (state, event) => resultOf(state, { request, event, params }));
    if (created.run !== undefined && isEnded(created.run)) this.#runs.noteEnd(created.run);
    return created;
  }

  async get(runId: string, eventId: string, params: WorkflowResolve = {}): Promise<WorkflowEvent> {
    const { events } = await this.#runs.of(runId).read();
    const event = events.find((one) => one.eventId === eventId);
    if (event === undefined) throw notFound(`Event "${eventId}" of run "${runId}"`);
    return withoutPayload(event, params);
  }

  /** The oldest first. */
  async list({ runId, pagination, ...params }: WorkflowOfRun & WorkflowResolve): Promise<WorkflowPage<WorkflowEvent>> {
    const { events } = await this.#runs.of(runId).read();
    return mapped(pageOf(events, eventsPage(pagination)), (event) => withoutPayload(event, params));
  }

  /** Without their run, which the streams of all runs are read for. */
  async listByCorrelationId({
    correlationId,
    pagination,
    ...params
  }: WorkflowListing & WorkflowResolve & { readonly correlationId: string }): Promise<WorkflowPage<WorkflowEvent>> {
    const eventsOf = ({ events }: RunState): (WorkflowEvent | undefined)[] =>
      events.map((event) => (event.correlationId === correlationId ? event : undefined));
    return mapped(await pageOfAll(this.#runs, eventsOf, eventsPage(pagination)), (event) =>
      withoutPayload(event, params),
    );
  }

  /** The hook with its token, or that another one has it. A claim whose hook fails to come is the same hook's to take up again. */
  async #claimed(log: RunLog, request: RequestOf<'hook_created'>, moment: Moment): Promise<WorkflowEventRequest> {
    decide(await log.read(), request, moment);
    const { token } = request.eventData;
    const claim = { runId: moment.runId, hookId: request.correlationId };
    const holder = await this.#runs.claim(token, claim);
    if (holder.runId === claim.runId && holder.hookId === claim.hookId) return request;
    return { ...request, eventType: 'hook_conflict', eventData: { token, conflictingRunId: holder.runId } };
  }
}

interface Outcome {
  readonly request: WorkflowRequest;
  readonly event: WorkflowEvent | undefined;
  readonly params: WorkflowCreateParams;
}

function resultOf(state: RunState, { request, event, params }: Outcome): WorkflowCreated {
  const { correlationId = '', eventType } = request;
  const { run, events } = state;
  const told = event === undefined ? {} : { event: withoutPayload(event, params) };
  const isStart = eventType === 'run_started' && event !== undefined && params.skipPreload !== true;
  if (isStart && run !== undefined) return { ...told, run: { ...run }, ...preloaded(events, {}, params) };
  if (eventType.startsWith('run_') || eventType === 'attr_set')
    return run === undefined ? told : { ...told, run: { ...run } };
  const step = eventType.startsWith('step_') ? state.steps.get(correlationId) : undefined;
  if (step !== undefined) return { ...told, step: { ...step }, ...ofStep(state, { request, event, params }) };
  const hook = liveHook(state, correlationId);
  if (eventType === 'hook_created' && hook !== undefined) return { ...told, hook: { ...hook } };
  const wait = eventType.startsWith('wait_') ? state.waits.get(correlationId) : undefined;
  return wait === undefined ? told : { ...told, wait: { ...wait } };
}

function ofStep({ events }: RunState, { request, params }: Outcome): Partial<WorkflowCreated> {
  if (request.eventType === 'step_started') {
    const { stepName, input } = request.eventData ?? {};
    // One that found the step there was refused.
    return stepName !== undefined && input !== undefined ? { stepCreated: true } : {};
  }
  const isEnd = request.eventType === 'step_completed' || request.eventType === 'step_failed';
  const { sinceCursor: cursor } = params;
  return isEnd && cursor !== undefined ? preloaded(events, { cursor }, params) : {};
}

function preloaded(
  all: readonly WorkflowEvent[],
  pagination: WorkflowPagination,
  params: WorkflowResolve,
): Pick<WorkflowCreated, 'events' | 'cursor' | 'hasMore'> {
  const { data, ...page } = pageOf(all, eventsPage(pagination));
  return { ...page, events: data.map((event) => withoutPayload(event, params)) };
}

function eventsPage(pagination: WorkflowPagination = {}): WorkflowPagination {
  return { ...pagination, limit: pagination.limit ?? EVENTS_PAGE };
}

function mapped<T, R>({ data, ...page }: WorkflowPage<T>, map: (item: T) => R): WorkflowPage<R> {
  return { ...page, data: data.map(map) };
}

/** A copy, as the DevKit writes into what it gets. */
function resolved<T extends object>(
  whole: T,
  { resolveData }: WorkflowResolve,
): T | (T & { input: undefined; output: undefined }) {
  return resolveData === 'none' ? { ...whole, input: undefined, output: undefined } : { ...whole };
}

function withoutMetadata(hook: WorkflowHook, { resolveData }: WorkflowResolve): WorkflowHook {
  const { metadata, ...rest } = hook;
  return resolveData === 'none' ? rest : { ...rest, metadata };
}

function withoutPayload(event: WorkflowEvent, { resolveData }: WorkflowResolve): WorkflowEvent {
  const payload = PAYLOADS[event.eventType];
  if (!('eventData' in event)) return { ...event };
  const eventData = { ...event.eventData };
  if (resolveData === 'none' && payload !== undefined) Reflect.deleteProperty(eventData, payload);
  return Object.assign({}, event, { eventData });
}

function notFound(what: string, name = 'WorkflowWorldError'): WorkflowWorldError {
  return new WorkflowWorldError(name, `${what} not found`, { status: 404 });
}
