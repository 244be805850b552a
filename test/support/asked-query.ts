/** A request as the shard sees it, for stand-ins of the shards. */
import { Query, type Request, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';

export function queryOf(request: Request): Query {
  const bytes = new Uint8Array(requestBytesMax(request));
  const view = new DataView(bytes.buffer);
  const size = writeRequest(request, 1, 0, bytes, view, 0);
  const query = new Query();
  query.read(bytes, view, 0, size);
  return query;
}
