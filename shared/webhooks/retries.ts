const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The pauses between the attempts of a delivery (contract §8). */
export const pausesMs = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour]
/** A manual redelivery after the last attempt starts a new round. */
export const attemptsPerRound = pausesMs.length + 1
