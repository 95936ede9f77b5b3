"""Programs that can start any other program, or reach any file, by name. Pure: nothing is looked up on the host.

Nobody can know all; these are the usual ones. What is missing here is still bound by a rule that must name it, and by
what its arguments could open.
"""

from __future__ import annotations

import re
from typing import Final


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


_INTERPRETERS: Final = names(
    "ash awk bash bsh bun busybox clisp coffee crash crystal csh csi dart dash dc deno ebb elixir elvish erl escript "
    "expect fennel fish gawk gdb gforth ghc ghci gimp gjs gnuplot goawk gosh gp gprolog groovy guile hush hy iex "
    "ipython irb janet java jimsh jjs jruby jrunscript jshell julia jupyter jython ksh lksh lldb lua luajit m4 "
    "mariadb mawk maxima micropython mksh mlr mongo mongosh mono msfconsole mysql nawk nickle nim node nodejs nu "
    "ocaml ocamlrun octave original-awk osascript osh perl phantomjs php pike posh psql pwsh pypy python qjs r racket "
    "raku rash rbash rscript ruby runghc runhaskell sage sash sbcl scala scheme scilab sh slsh sqlite sqlplus swift "
    "swipl tcc tclsh tcsh toybox ts-node tsx utop wish xonsh yash ysh zig zsh"
)
_STARTERS: Final = names(
    "aa-exec abduco ack ansible ansible-playbook ant apt apt-get artisan at bash-static batch bazel boot bpftrace "
    "bundle bwrap c++ c89 c99 cabal capsh cargo catchsegv cc cgexec choom chpst chronic chroot chrt clang clang++ "
    "cmake composer conda coverage cpan cpulimit crontab daemonize dbus-run-session distrobox django-admin dnf doas "
    "docker dotnet dpkg dtach dune easy_install eatmydata entr env eslint exec fakeroot faketime fd fdfind "
    "file-rename find2perl firejail flake8 flatpak flock flutter fzf g++ gcc gdbserver gem genv gh ginstall gnice "
    "gnohup go gradle grunt gstdbuf gtester gtime gtimeout gulp gxargs hatch hyperfine ifne invoke ionice ip jest "
    "just kotlin kotlinc kubectl lckdo ld ld-linux ld-linux-aarch64 ld-linux-x86-64 ldd lein lima lldb logrotate "
    "logsave ltrace make mamba meson micromamba mix mkdocs mocha mount multitime mvn mypy newgrp nice ninja nix "
    "nix-shell nohup nox npm npx nsenter numactl nx openvt parallel pdm pee perf pip pipenv pipx pkexec pnpm podman "
    "poetry pre-commit prename prettier prlimit proot pylint pytest rails rake rebar3 rename reptyr rlwrap rollup rpm "
    "run-mailcap run-one run-parts runcon runuser sbt script scriptlive service setarch setlock setpriv setsid sg "
    "snap softlimit sphinx-build sshpass stack start-stop-daemon stdbuf strace su sudo systemctl systemd-run taskset "
    "tclsh terraform time timeout torsocks tox tsocks turbo unbuffer unshare uv uvx vagrant valgrind vidir vipe vite "
    "vitest watch watchexec webpack xargs xdg-open xdotool xvfb-run yarn yum zrun zypper"
)
_PAGERS_AND_EDITORS: Final = names(
    "bat batcat delta dialog ed elinks emacs emacsclient ex helix hx info jed joe journalctl less lesspipe links lynx "
    "man mc mcedit micro more most mutt nano ncdu nvim pg pico pinfo ranger rview rvim screen tig tmux vi view vigr "
    "vim vimdiff vipw w3m zathura zless zmore"
)
_CARRIERS: Final = names(
    "7z 7za 7zr ar aria2c bsdtar busctl chgrp chown convert cpio csplit curl dd debugfs duckdb exiftool ffmpeg ffplay "
    "ffprobe ftp gdbus gm gpg gpg2 gs gsed gsplit gtar http https identify install latex latexmk lftp ln lualatex "
    "lwp-request magick mail mailx mkfifo mknod mogrify montage mosquitto_pub mount nc ncat ncftp netcat nmap openssl "
    "openvpn pandoc pass patch pax pdflatex pdftex ps psftp rclone redis-cli restic rsync rsync-ssl scp sendmail sftp "
    "smbclient socat sox split ssed ssh ssh-agent ssh-keygen ssh-keyscan tar tcpdump telnet tex tftp tshark "
    "unsquashfs unzip wget wget2 xelatex xetex xmlstarlet xsltproc yq zip"
)
_LAUNCHERS: Final = _INTERPRETERS | _STARTERS | _PAGERS_AND_EDITORS | _CARRIERS
_VERSION: Final = re.compile(r"[-0-9.]+$")


def launches(program: str) -> bool:
    """Whether a program is one of them, also in a version, a variant or for another machine: python3.11, nc.openbsd."""
    name = program.casefold()
    plain = _VERSION.sub("", name)
    variants = {name, plain, name.partition(".")[0], name.partition("-")[0], plain.rpartition("-")[2]}
    return bool(variants & _LAUNCHERS) or name.startswith("git-")
