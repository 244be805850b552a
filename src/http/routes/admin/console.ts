/**
 * GET / on the admin plane: the console, a page for operators. It holds no secret, so it is served without a token and
 * asks for one. Everything it shows it fetches from the other routes of this plane.
 */
import type { ConsolePage } from '../../../console/built-page.ts';
import { prefersGzip } from '../../../protocol/accept-encoding.ts';
import { etagMatches } from '../../../protocol/condition.ts';
import type { RequestContext } from '../../request.ts';

export function handleConsole(call: RequestContext, page: ConsolePage): void {
  const known = call.req.getHeader('if-none-match');
  const isPacked = prefersGzip(call.headers.acceptEncoding);
  const { bytes, etag } = isPacked ? page.gzip : page.plain;
  const { responder } = call;
  // The page may be larger than what the socket takes at once.
  call.accept();
  call.respond((res) => {
    const status = etagMatches(known, etag) ? 304 : 200;
    responder.begin(res, status, 'no-cache');
    res.writeHeader('etag', etag);
    for (const [name, value] of page.headers) res.writeHeader(name, value);
    if (status === 304) {
      res.endWithoutBody();
      return status;
    }
    if (isPacked) res.writeHeader('content-encoding', 'gzip');
    responder.end(res, bytes);
    return status;
  });
}
