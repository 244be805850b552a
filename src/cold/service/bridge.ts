/**
 * Connects a shard thread with the cold service on the main thread: each request of a shard is answered once per id.
 * Bytes are transferred, not copied.
 */
import type { Worker } from 'node:worker_threads';
import type {
  ListAnswer,
  ListRequest,
  MergeAnswer,
  MergeRequest,
  RemoveAnswer,
  RemoveRequest,
  UploadAnswer,
  UploadRequest,
} from '../shard/port.ts';
import type { ColdService } from './cold-service.ts';

/** Requests from a shard. */
export type ColdQuestion =
  | { readonly ask: 'upload'; readonly request: UploadRequest }
  | { readonly ask: 'remove'; readonly request: RemoveRequest }
  | { readonly ask: 'list'; readonly request: ListRequest }
  | { readonly ask: 'merge'; readonly request: MergeRequest }
  /** Whether the store is reachable; a peer asked. */
  | { readonly ask: 'probe'; readonly request: { readonly id: number } };

/** Answers to a shard. */
export type ColdAnswer =
  | { readonly told: 'uploaded'; readonly id: number; readonly answer: UploadAnswer }
  | { readonly told: 'removed'; readonly id: number; readonly answer: RemoveAnswer }
  | { readonly told: 'listed'; readonly id: number; readonly answer: ListAnswer }
  | { readonly told: 'merged'; readonly id: number; readonly answer: MergeAnswer }
  | { readonly told: 'probed'; readonly id: number; readonly answer: boolean };

/** The part of the cold service that shards use: its promises never reject. */
export type ColdCalls = Pick<ColdService, 'upload' | 'remove' | 'list' | 'merge' | 'reaches'>;

const NO_STORE = { error: 'this node has no cold store' };

/** Answers one request of a shard thread. */
export async function answerShard(
  worker: Worker,
  service: ColdCalls | undefined,
  question: ColdQuestion,
): Promise<void> {
  worker.postMessage(await ask(service, question));
}

async function ask(service: ColdCalls | undefined, question: ColdQuestion): Promise<ColdAnswer> {
  const { id } = question.request;
  switch (question.ask) {
    case 'upload': {
      const { key, body, slices } = question.request;
      return { told: 'uploaded', id, answer: (await service?.upload(key, body, slices)) ?? NO_STORE };
    }
    case 'remove':
      return { told: 'removed', id, answer: (await service?.remove(question.request.keys)) ?? NO_STORE };
    case 'list': {
      const { prefix, after, limit } = question.request;
      return { told: 'listed', id, answer: (await service?.list(prefix, after, limit)) ?? NO_STORE };
    }
    case 'merge': {
      const { key, slices } = question.request;
      return { told: 'merged', id, answer: (await service?.merge(key, slices)) ?? NO_STORE };
    }
    case 'probe':
      return { told: 'probed', id, answer: (await service?.reaches()) ?? false };
  }
}
