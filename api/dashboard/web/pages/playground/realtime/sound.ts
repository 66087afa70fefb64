import workletUrl from './microphone-worklet.js?url&no-inline'

const rate = 24_000
const bytesPerCall = 8_192

/** The microphone and the loudspeaker of a session, both as 24 kHz PCM16. */
export class Sound {
  readonly #context = new AudioContext()
  readonly #playing = new Set<AudioBufferSourceNode>()
  #stream: MediaStream | null = null
  #worklet: AudioWorkletNode | null = null
  /** The end of the audio received so far, on the context's clock. */
  #playedS = 0
  #isClosed = false
  muted = false

  /** Records the microphone; `heard` gets each chunk with its level, 0 to 1. Rejects if access is denied. */
  async listen(heard: (pcm: ArrayBuffer, loudness: number) => void): Promise<void> {
    this.#stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
    })
    // Access may be granted after the session ended.
    if (this.#isClosed) return this.#release()
    await this.#context.resume()
    await this.#context.audioWorklet.addModule(workletUrl)
    this.#worklet = new AudioWorkletNode(this.#context, 'microphone', { numberOfOutputs: 0 })
    this.#worklet.port.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      if (!this.muted) heard(data, loudnessOf(data))
    }
    this.#context.createMediaStreamSource(this.#stream).connect(this.#worklet)
  }

  /** Plays a chunk after the previous ones. */
  play(pcm: ArrayBuffer): void {
    const samples = Float32Array.from(new Int16Array(pcm), sample => sample / 32_768)
    if (samples.length === 0) return
    const buffer = this.#context.createBuffer(1, samples.length, rate)
    buffer.copyToChannel(samples, 0)
    const source = this.#context.createBufferSource()
    source.buffer = buffer
    source.connect(this.#context.destination)
    this.#playedS = Math.max(this.#playedS, this.#context.currentTime)
    source.start(this.#playedS)
    this.#playedS += buffer.duration
    this.#playing.add(source)
    source.onended = () => void this.#playing.delete(source)
  }

  /** Discards audio that has not been played: the user began to speak. */
  hush(): void {
    for (const source of this.#playing) source.stop()
    this.#playing.clear()
    this.#playedS = 0
  }

  close(): void {
    this.#isClosed = true
    this.#release()
    this.#worklet?.port.close()
    if (this.#context.state !== 'closed') void this.#context.close()
  }

  #release(): void {
    for (const track of this.#stream?.getTracks() ?? []) track.stop()
  }
}

function loudnessOf(pcm: ArrayBuffer): number {
  const samples = new Int16Array(pcm)
  let sum = 0
  for (const sample of samples) sum += (sample / 32_768) ** 2
  return Math.min(1, Math.sqrt(sum / samples.length) * 4)
}

export function base64Of(pcm: ArrayBuffer): string {
  const bytes = new Uint8Array(pcm)
  let text = ''
  for (let i = 0; i < bytes.length; i += bytesPerCall)
    text += String.fromCharCode(...bytes.subarray(i, i + bytesPerCall))
  return btoa(text)
}

export function pcmOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), character => character.charCodeAt(0)).buffer
}
