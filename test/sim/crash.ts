/** Thrown inside a write: the process is no more. */
export class SimCrash extends Error {}
