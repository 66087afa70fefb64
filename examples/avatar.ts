// npx node examples/avatar.ts [script]
import { download, request, runJob } from './client.ts'
import { readVideo } from './files.ts'

type List<Row> = { data: Row[] }
const [script = 'Hello! This is a talking avatar, speaking a script.'] = process.argv.slice(2)
const avatars = await request<List<{ id: string; name: string; default_voice_id: string | null }>>('/v1/avatars')
const voices = await request<List<{ id: string; name: string }>>('/v1/avatars/voices?language=English')
const [avatar] = avatars.data
const voiceId = avatar?.default_voice_id ?? voices.data[0]?.id
console.log(`${avatar?.name} speaks`)
const job = await runJob('/v1/avatars/videos', { avatar_id: avatar?.id, script, voice_id: voiceId })
const { durationS, width, height } = await readVideo(await download(job.outputs[0]!, job.id))
console.log(`a video of ${durationS.toFixed(2)} s, ${width}x${height}`)
