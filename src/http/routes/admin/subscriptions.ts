/** Subscriptions for operators: GET /__svc/subscriptions?after&limit, and POST /__svc/subscriptions/{id}/deliver. */
import { decodeUrlPart, parseUint53 } from '../../../protocol/header-values.ts';
import type { Inspection } from '../../../subscriptions/ports.ts';
import { collect } from '../../../protocol/query-string.ts';
import type { RequestContext } from '../../request.ts';

/** Whether each has something pending is looked up for all of its streams. */
const PAGE_MAX = 50;
const NAMES: ReadonlySet<string> = new Set(['after', 'limit']);

export function handleListSubscriptions(call: RequestContext, inspection: Inspection): void {
  const query = collect(call.req.getQuery() ?? '', NAMES);
  if (!query.ok) return call.refuse('INVALID_QUERY', query.reason);
  const limit = parseUint53(query.value.get('limit') ?? String(PAGE_MAX), 'limit');
  if (!limit.ok) return call.refuse('INVALID_QUERY', limit.reason);
  if (limit.value === 0 || limit.value > PAGE_MAX) {
    return call.refuse('INVALID_QUERY', `limit must be from 1 to ${PAGE_MAX}`);
  }
  return call.json(200, inspection.list(query.value.get('after') ?? '', limit.value));
}

export function handleDeliverAgain(call: RequestContext, inspection: Inspection): void {
  const id = decodeUrlPart(call.path.parameters[0] ?? '');
  if (id === undefined) return call.refuse('INVALID_NAME', 'the percent-encoding is malformed or not UTF-8');
  switch (inspection.deliver(id)) {
    case 'trying':
      return call.json(200, { id, trying: true });
    case 'not-found':
      return call.text(404, 'there is no such subscription');
    case 'not-waiting':
      return call.text(409, 'no failed delivery of this subscription waits for its next attempt');
    case 'not-driving':
      return call.text(409, 'another node delivers; GET /__svc/subscriptions says driving there');
  }
}
