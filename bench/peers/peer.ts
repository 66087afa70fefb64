/** What a peer is started with. */
export type PeerPlace = {
  port: number
  upstreamUrl: string
  /** The models of the emulated upstream. */
  models: string[]
  databaseUrl: string
  redisUrl: string
  /** A folder of the run. */
  folder: string
}

/** How a process is started and asked; `readyPath` answers 200 when it can serve. */
export type Launch = {
  command: string[]
  env?: NodeJS.ProcessEnv
  headers?: string[]
  readyPath?: string
  /** What is left to do once it listens. */
  prepare?(): Promise<void>
}

/** A gateway of others that the benchmark compares with. The project does not need it. */
export type Peer = {
  /** Fetches it unless it is there. Throws an Error where that cannot be done. */
  install(): Promise<void>
  launch(place: PeerPlace): Promise<Launch>
}
