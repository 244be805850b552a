/** PUT /{bucket}/{stream}/retention/{offset} or ?record=: raises the retention floor up to the published snapshot. */
import { encodeRetention } from '../../protocol/position-command.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Request } from '../../protocol/request.ts';
import { declaredBytes } from '../headers.ts';
import type { Plane } from '../plane.ts';
import { PositionExchange, parsePosition } from './position.ts';
import type { Responder } from '../respond.ts';
import { writeRecordRange } from './snapshot.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { COMMANDS } from '../../protocol/operations.ts';

export function handleRetention(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  bucket: string,
  stream: string,
  segment: string,
  startedMs: number,
): void {
  const position = parsePosition(segment, req.getQuery());
  if (!position.ok) {
    return plane.refuse(res, responder, 'bucketed', 'retention', startedMs, 'INVALID_POSITION', position.reason);
  }
  const exchange = new RetentionExchange(plane, COMMANDS.retention.number, bucket, stream, position.value);
  exchange.open(res, responder, 'bucketed', 'retention', startedMs);
  return exchange.readBody(res, declaredBytes(req.getHeader('content-length')));
}

class RetentionExchange extends PositionExchange {
  /** A body means nothing here. */
  protected override bodyReady(): void {
    this.sendCommand();
  }

  protected override fill(request: Request): void {
    request.command.payload = encodeRetention(this.position);
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 204);
    res.writeHeader('stream-retained-offset', String(reply.startOffset));
    writeRecordRange(res, reply);
    res.endWithoutBody();
    return 204;
  }
}
