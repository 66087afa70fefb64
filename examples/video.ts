// npx node examples/video.ts [prompt]
import { download, runJob } from './client.ts'
import { readVideo } from './files.ts'

const [prompt = 'A lighthouse at dusk, waves rolling in'] = process.argv.slice(2)
const job = await runJob('/v1/videos', { prompt, seconds: 5 })
const { durationS, width, height } = await readVideo(await download(job.outputs[0]!, job.id))
console.log(`a video of ${durationS.toFixed(2)} s, ${width}x${height}`)
