// npx node examples/lip-sync.ts [clip.mp4 speech.wav]
import { download, runJob } from './client.ts'
import { readVideo } from './files.ts'
import { sample } from './samples.ts'

const [clip, speech] = process.argv.slice(2)
const body = { video_url: await sample('clip.mp4', clip), audio_url: await sample('speech.wav', speech) }
const job = await runJob('/v1/lipsync', body)
const { durationS, width, height } = await readVideo(await download(job.outputs[0]!, job.id))
console.log(`a video of ${durationS.toFixed(2)} s, ${width}x${height}`)
