/**
 * A World of Vercel's Workflow DevKit that needs no other store: runs, steps, hooks, waits and events, the queue and the streams are all
 * on Millrace, of version 5 of its interface.
 */
import type { MillraceClient } from './client.ts';
import { SPEC_VERSION } from './workflow-events.ts';
import {
  WorkflowQueue,
  type WorkflowQueueHandler,
  type WorkflowQueuePutOptions,
  queueHandler,
} from './workflow-queue.ts';
import { WorkflowRuns } from './workflow-runs.ts';
import { WorkflowEventsView, WorkflowHooksView, WorkflowRunsView, WorkflowStepsView } from './workflow-storage.ts';
import { type WorkflowStreams, createStreamer } from './workflow-streams.ts';

const DELIVERIES = 100;
const LEASE_MS = 30_000;

export interface WorkflowWorldOptions {
  readonly client: MillraceClient;
  /** Where this program serves its workflows, as `http://localhost:3000`; a function is asked before each delivery. */
  readonly baseUrl: string | (() => string);
  /** Keeps everything. `workflow` when left out. */
  readonly bucket?: string;
  /** `millrace` when left out. */
  readonly deploymentId?: string;
  /** Seconds after the last read or write in which what a run streamed is removed; left out, it stays, as runs do. */
  readonly streamTtlSeconds?: number;
  /** Messages that this process delivers at a time; 100 when left out. */
  readonly deliveries?: number;
  /** How long after the death of a process its messages are delivered by another one; 30,000 when left out. */
  readonly leaseMs?: number;
  /** Delivers messages to this program. The global one when left out, which in Node gives up after 300 s. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export interface WorkflowWorld {
  readonly specVersion: number;
  readonly runs: WorkflowRunsView;
  readonly steps: WorkflowStepsView;
  readonly events: WorkflowEventsView;
  readonly hooks: WorkflowHooksView;
  readonly streams: WorkflowStreams;
  getDeploymentId(): Promise<string>;
  /** Resolves when the message is durable. It is delivered at least once, by any process that has started. */
  queue(queueName: string, message: unknown, options?: WorkflowQueuePutOptions): Promise<{ messageId: string }>;
  createQueueHandler(prefix: string, handler: WorkflowQueueHandler): (request: Request) => Promise<Response>;
  /** Begins to deliver messages. */
  start(): Promise<void>;
  /** Resolves when the deliveries under way have ended. The client stays open. */
  close(): Promise<void>;
}

export function createWorld(options: WorkflowWorldOptions): WorkflowWorld {
  const { client, baseUrl, bucket = 'workflow', deploymentId = 'millrace', streamTtlSeconds } = options;
  const { deliveries = DELIVERIES, leaseMs = LEASE_MS, fetch = globalThis.fetch } = options;
  const runs = new WorkflowRuns(client, bucket);
  const queue = new WorkflowQueue({ client, bucket, baseUrl, fetch, deliveries, leaseMs });
  const ttl = streamTtlSeconds === undefined ? {} : { ttlSeconds: streamTtlSeconds };
  return {
    specVersion: SPEC_VERSION,
    runs: new WorkflowRunsView(runs),
    steps: new WorkflowStepsView(runs),
    events: new WorkflowEventsView(runs),
    hooks: new WorkflowHooksView(runs),
    streams: createStreamer({ client, bucket, ...ttl }).streams,
    getDeploymentId: () => Promise.resolve(deploymentId),
    queue: async (queueName, message, put) => ({ messageId: await queue.put(queueName, message, put) }),
    createQueueHandler: queueHandler,
    start: () => {
      queue.start();
      return Promise.resolve();
    },
    close: async () => await queue.close(),
  };
}
