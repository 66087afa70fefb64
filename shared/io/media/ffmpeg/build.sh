#!/bin/sh
# Compiles measure.wasm, of FFmpeg's demuxers and parsers, and convert.wasm, which has decoders and the encoder of FLAC as
# well. Needs Debian 12 (bookworm) with
#   apt-get install clang-14 lld-14 llvm-14 wasi-libc libclang-rt-14-dev-wasm32 binaryen make xz-utils
# The sources of FFmpeg are those in the npm package libav.js, or a path: ./build.sh ffmpeg-9.0.tar.xz
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=${1:-}
if [ -z "$archive" ]; then
  (cd "$work" && npm pack --silent libav.js@6.10.9 >/dev/null && tar xzf libav.js-6.10.9.tgz)
  archive=$work/package/sources/ffmpeg-9.0.tar.xz
fi
echo "7f607a00dd0d28a729d5a4811205812eef01cf6ef6155025febb6f36a9062d52  $archive" | sha256sum --check --quiet
tar xJf "$archive" -C "$work"

# No protocol, no network: what is not compiled in cannot be reached by a file.
demuxers=aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,eac3,flac,flv,gsm,loas,matroska,mov,mp3,mpegps,mpegts,mpegvideo,ogg,tta,w64,wav,wv
parsers=aac,aac_latm,ac3,amr,dca,flac,gsm,mlp,mpegaudio,mpegvideo,opus,vorbis
pcm=pcm_alaw,pcm_bluray,pcm_dvd,pcm_f16le,pcm_f24le,pcm_f32be,pcm_f32le,pcm_f64be,pcm_f64le,pcm_mulaw,pcm_s16be,pcm_s16be_planar,pcm_s16le,pcm_s16le_planar,pcm_s24be,pcm_s24le,pcm_s24le_planar,pcm_s32be,pcm_s32le,pcm_s32le_planar,pcm_s8,pcm_s8_planar,pcm_u8
adpcm=adpcm_g722,adpcm_g726,adpcm_g726le,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,adpcm_swf,adpcm_yamaha
decoders=aac,aac_latm,ac3,alac,amrnb,amrwb,ape,dca,eac3,flac,gsm,gsm_ms,mp1float,mp2float,mp3float,nellymoser,opus,speex,tta,vorbis,wavpack,wmapro,wmav1,wmav2,$pcm,$adpcm
target='--target=wasm32-wasi --sysroot=/usr'
emulated='-lwasi-emulated-process-clocks -lwasi-emulated-signal -lwasi-emulated-getpid'

# Builds a module: build <name> <its sources> <its libraries> <what of FFmpeg it needs beside demuxers and parsers>
build() {
  name=$1 sources=$2 libraries=$3
  shift 3
  mkdir "$work/$name" && cd "$work/$name"
  ../ffmpeg-9.0/configure --enable-cross-compile --target-os=none --arch=wasm32 \
    --cc=clang-14 --ar=llvm-ar-14 --ranlib=llvm-ranlib-14 --nm=llvm-nm-14 \
    --extra-cflags="$target -O2 -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID" \
    --extra-ldflags="$target $emulated" \
    --disable-everything --disable-all --disable-autodetect --disable-asm --disable-inline-asm --disable-pthreads \
    --disable-network --disable-debug --disable-programs --disable-iconv \
    --enable-avcodec --enable-avformat --enable-demuxer=$demuxers --enable-parser=$parsers "$@" >/dev/null
  make -j"$(nproc)" >/dev/null
  # Linked without optimization: the driver's own call of wasm-opt knows no SIMD. 256 MB is the most that a file may take.
  clang-14 $target -O2 -msimd128 -I. -I../ffmpeg-9.0 -c $sources "$here/file-io.c"
  clang-14 $target -mexec-model=reactor -o "$name.wasm" *.o -Llibavformat -Llibavcodec -Llibswresample -Llibavutil $libraries $emulated \
    -Wl,--max-memory=268435456 -Wl,-z,stack-size=1048576 -Wl,--strip-all -Wl,--gc-sections
  wasm-opt -O3 --enable-bulk-memory --enable-simd "$name.wasm" -o "$here/$name.wasm"
}

build measure "$here/measure.c $here/aac-blocks.c ../ffmpeg-9.0/libavcodec/aactab.c" '-lavformat -lavcodec -lavutil'
build convert "$here/convert.c" '-lavformat -lavcodec -lswresample -lavutil' \
  --enable-swresample --enable-decoder=$decoders --enable-encoder=flac
