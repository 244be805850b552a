/** Methods of each route of the client plane, as `Allow` names them in answers to OPTIONS and in refusals with 405. */
import type { ControlPort } from '../subscriptions/ports.ts';
import { allowOfControl } from './routes/control.ts';
import { type RouteKind, newRoute, parseRoute } from './routes.ts';
import { type ServiceTable, allowOfService } from './routes/admin/service.ts';

/** What OPTIONS says of a path; '' when nothing is there. */
export type AllowOf = (url: string) => string;

/** Routes whose methods do not depend on what the path ends with. */
export const ALLOW = {
  stream: 'GET, HEAD, POST, PUT, DELETE, OPTIONS',
  attrs: 'GET, HEAD, PUT, OPTIONS',
  batch: 'POST, OPTIONS',
  retention: 'PUT, OPTIONS',
  bootstrap: 'GET, HEAD, OPTIONS',
  bucket: 'GET, HEAD, PUT, DELETE, OPTIONS',
  list: 'GET, HEAD, OPTIONS',
} as const satisfies Partial<Record<RouteKind, string>>;

/** `detail`: the offset in the path, if there is one. The latest snapshot is no resource that can be deleted. */
export function allowOfSnapshot(detail: string): string {
  return detail === '' ? 'GET, HEAD, PUT, OPTIONS' : 'GET, HEAD, PUT, DELETE, OPTIONS';
}

export function clientAllow(service: ServiceTable, control: ControlPort | undefined): AllowOf {
  const route = newRoute();
  return (url) => {
    parseRoute(url, route);
    switch (route.kind) {
      case 'service':
        return allowOfService(service, url);
      case 'control':
        return control === undefined ? '' : allowOfControl(control, url);
      case 'snapshot':
        return allowOfSnapshot(route.detail);
      case 'invalid':
      case 'none':
        return '';
      default:
        return ALLOW[route.kind];
    }
  };
}
