/** Who follows streams: live readers, and subscriptions. */
import { query } from './operation.ts';

/** A live reader is gone: its topic ends. */
export const unwatch = query({ number: 37, scope: 'control', needsLeaders: false, duringImport: true });

/** What subscriptions follow in a group (group/observer.ts): mode = one of OBSERVE_*, key = a stream, or a pattern in place of the
 * bucket; events go to the topic. */
export const observe = query({ number: 46, scope: 'group', needsLeaders: false, duringImport: false });
