/** Pages of lists whose places never change, as what is appended only comes behind: a cursor is a place, or that of a run and one in it. */
import { refusal } from './resumable-log.ts';
import type { RunState } from './workflow-run-fold.ts';
import type { WorkflowRuns } from './workflow-runs.ts';

const PAGE = 100;
const PAGE_MAX = 1000;

export interface WorkflowPagination {
  /** 100 when left out, 1,000 of events and at most. */
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly sortOrder?: 'asc' | 'desc' | undefined;
}

export interface WorkflowPage<T> {
  readonly data: T[];
  /** Behind the last one, also where more is yet to come; null: there was none. */
  readonly cursor: string | null;
  readonly hasMore: boolean;
}

/** The places of a page in their order, and the cursor behind each. */
export interface Places {
  readonly limit: number;
  readonly places: readonly number[];
  readonly behind: (place: number) => string;
}

export function placesOf(
  length: number,
  { limit, cursor, sortOrder }: WorkflowPagination = {},
  order: 'asc' | 'desc' = 'asc',
): Places {
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) throw refusal('INVALID_ARGUMENT', `"${cursor}" is no cursor`);
  const isUp = (sortOrder ?? order) === 'asc';
  const from = cursor === undefined ? (isUp ? 0 : length) : Math.min(Number(cursor), length);
  const places = Array.from({ length: isUp ? length - from : from }, (_, i) => (isUp ? from + i : from - 1 - i));
  return {
    limit: limitOf(limit),
    places,
    behind: (place) => String(isUp ? place + 1 : place),
  };
}

/** Those at these places that are there. */
export function pageOf<T>(
  items: readonly (T | undefined)[],
  pagination: WorkflowPagination = {},
  order: 'asc' | 'desc' = 'asc',
): WorkflowPage<T> {
  const { limit, places, behind } = placesOf(items.length, pagination, order);
  const data: T[] = [];
  let cursor = pagination.cursor ?? null;
  for (const place of places) {
    const item = items[place];
    if (item === undefined) continue;
    if (data.length === limit) return { data, cursor, hasMore: true };
    data.push(item);
    cursor = behind(place);
  }
  return { data, cursor, hasMore: false };
}

/** The same of all runs, in the order of these, for what has no list of its own: their streams are read. */
export async function pageOfAll<T>(
  runs: WorkflowRuns,
  itemsOf: (state: RunState) => readonly (T | undefined)[],
  pagination: WorkflowPagination = {},
): Promise<WorkflowPage<T>> {
  const { cursor: given, sortOrder = 'asc' } = pagination;
  const limit = limitOf(pagination.limit);
  const [runAt, itemAt] = given?.split('.') ?? [];
  const listed = await runs.listed();
  const first = runAt === undefined || sortOrder === 'asc' ? runAt : String(Number(runAt) + 1);
  const { places } = placesOf(listed.length, { cursor: first, sortOrder });
  const data: T[] = [];
  let cursor = given ?? null;
  let n = 0;
  for await (const state of runs.states(places.map((place) => listed[place]?.runId ?? ''))) {
    const place = places[n] ?? 0;
    const page = pageOf(itemsOf(state), {
      limit: limit - data.length,
      cursor: n === 0 ? itemAt : undefined,
      sortOrder,
    });
    n++;
    if (page.data.length > 0 && data.length === limit) return { data, cursor, hasMore: true };
    if (page.data.length > 0) cursor = `${place}.${page.cursor ?? 0}`;
    data.push(...page.data);
    if (page.hasMore) return { data, cursor, hasMore: true };
  }
  return { data, cursor, hasMore: false };
}

function limitOf(limit = PAGE): number {
  return Math.min(Math.max(Math.trunc(limit) || 0, 1), PAGE_MAX);
}
