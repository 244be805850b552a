// A program with a Workflow World, as tests begin several of them on one node.
import { after } from 'node:test';
import { connect } from '../../src/client/client.ts';
import type { WorkflowRequest } from '../../src/client/workflow-storage.ts';
import { type WorkflowWorld, type WorkflowWorldOptions, createWorld } from '../../src/client/workflow-world.ts';

export const PREFIX = '__wkf_workflow_';
export const BYTES = Uint8Array.from([1, 0, 255]);

export interface Program {
  readonly world: WorkflowWorld;
  readonly handle: { current: Handler };
  /** As a process that is killed. */
  kill(): void;
}

type Handler = (message: unknown, attempt: number, id: string) => Promise<void | { timeoutSeconds: number }>;

/** Another process, which takes messages once it has started. */
export function startProgram(url: string, options: Partial<WorkflowWorldOptions> = {}): Program {
  const own = connect(url);
  const handle: { current: Handler } = { current: async () => await Promise.resolve() };
  const world = createWorld({
    client: own,
    baseUrl: 'http://program',
    fetch: async (to, init) => await handler(new Request(to, init)),
    ...options,
  });
  const handler = world.createQueueHandler(PREFIX, async (message, { attempt, messageId }) =>
    handle.current(message, attempt, messageId),
  );
  after(() => own.close());
  return { world, handle, kill: () => own.close() };
}

/** Name of the error that it ends with, by which the DevKit knows it. */
export async function nameOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'done';
  } catch (error) {
    return error instanceof Error ? error.name : String(error);
  }
}

export const seed = (workflowName: string): Extract<WorkflowRequest, { eventType: 'run_created' }> => ({
  eventType: 'run_created',
  eventData: { deploymentId: 'd', workflowName, input: BYTES, executionContext: { $bytes: 'no bytes' } },
});

export const hook = (correlationId: string, token: string): WorkflowRequest => ({
  eventType: 'hook_created',
  correlationId,
  eventData: { token, metadata: BYTES },
});
