/** What a handler of a service route gets. */
import type { MetricsSource } from './metrics-route.ts';
import type { Plane } from '../../plane.ts';
import type { Responder } from '../../respond.ts';
import type { UwsRequest, UwsResponse } from '../../uws.ts';

/** One call of a service route. */
export interface ServiceCall {
  readonly plane: Plane;
  readonly source: MetricsSource;
  readonly res: UwsResponse;
  readonly req: UwsRequest;
  readonly responder: Responder;
  readonly startedMs: number;
}
