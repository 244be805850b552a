// Connections of a context in a test: bounds that nothing meets, or those that are given.
import {
  type ConnectionBounds,
  type ConnectionEdge,
  Connections,
  connectionsTo,
} from '../../src/access/connections.ts';

export function newConnections(
  bounds: ConnectionBounds = { all: 10_000, perAddress: 10_000 },
  warn: ConnectionEdge['warn'] = () => undefined,
): Connections {
  return new Connections(bounds, { monotonicMs: () => performance.now(), warn, connectionsTo });
}
