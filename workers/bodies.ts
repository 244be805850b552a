/** Thread that parses large bodies of subscription requests. */
import type { BodyTask } from '../src/subscriptions/service/body-parser.ts';
import { type BodyKind, type BodyOf, type Parsed, parseBody } from '../src/subscriptions/state/requests.ts';

/** Named in src/subscriptions/service/body-parser.ts. */
export function parse({ kind, body }: BodyTask): Parsed<BodyOf[BodyKind]> {
  return parseBody(kind, body);
}
