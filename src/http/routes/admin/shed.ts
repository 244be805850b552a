/**
 * Leadership-shed state of this node: read it, mark the node draining, lift the mark.
 * Both changes are idempotent: repeated, they are applied again, so a call that failed half way is mended by a repeat.
 */
import { MillraceError } from '../../../base/errors.ts';
import type { DrainMark } from '../../../placement/ports.ts';
import { SHED_DRAIN, describeShed } from '../../../placement/state/shed.ts';
import { Gathering } from '../../gather.ts';
import type { Plane } from '../../plane.ts';
import type { Responder } from '../../respond.ts';
import type { UwsResponse } from '../../uws.ts';

/** GET /__svc/leadership-shed */
export function handleReadShed(
  plane: Plane,
  mark: DrainMark,
  res: UwsResponse,
  responder: Responder,
  startedMs: number,
): void {
  responder.json(res, 200, JSON.stringify(describeShed(mark.bits)));
  plane.count('other', 200, startedMs);
}

/** POST (draining) and DELETE (not) /__svc/leadership-shed/maintenance */
export function handleSetShed(
  plane: Plane,
  mark: DrainMark,
  draining: boolean,
  res: UwsResponse,
  responder: Responder,
  startedMs: number,
): void {
  const gathering = new Gathering(plane, res, responder, 'other', startedMs);
  mark.set(draining).then(
    // What this call brought about, also when another call changes it in the same moment.
    () => gathering.json(200, describeShed(draining ? mark.bits | SHED_DRAIN : mark.bits & ~SHED_DRAIN)),
    (error: unknown) => {
      if (!(error instanceof MillraceError)) plane.logError(error, 'leadership-shed');
      gathering.refuse(error instanceof MillraceError ? error.code : 'INTERNAL');
    },
  );
}
