/** Thread that parses large bodies of subscription requests. */
import type { BodyTask } from '../src/server/subscriptions/bodies.ts';
import { type BodyKind, type BodyOf, parseBody } from '../src/subscriptions/bodies.ts';
import type { Parsed } from '../src/subscriptions/requests.ts';

/** Named in src/server/subscriptions/bodies.ts. */
export function parse({ kind, body }: BodyTask): Parsed<BodyOf[BodyKind]> {
  return parseBody(kind, body);
}
