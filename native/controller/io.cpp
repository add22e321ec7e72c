// SPDX-License-Identifier: Apache-2.0
#include "controller/io.h"

#include <algorithm>
#include <cstring>

#include "controller/controller.h"
#include "controller/protection.h"

namespace tutti::controller {

namespace {

constexpr uint32_t kRangeBytes = 16;
constexpr uint32_t kDsmDeallocate = 1u << 2;
constexpr uint32_t kZeroesDeallocate = 1u << 25;

bool has_data(uint8_t opcode) { return opcode == io_op::kRead || opcode == io_op::kWrite || opcode == io_op::kCompare; }
bool has_range(uint8_t opcode) { return has_data(opcode) || opcode == io_op::kWriteZeroes || opcode == io_op::kVerify; }
bool writes(uint8_t opcode) {
    return opcode == io_op::kWrite || opcode == io_op::kWriteZeroes || opcode == io_op::kDsm;
}

Status find_namespace(Controller &controller, const Sqe &sqe, Namespace **ns) {
    if (sqe.nsid() == 0 || sqe.nsid() > controller.highest_nsid())
        return status::kInvalidNamespace;
    *ns = controller.find_namespace(sqe.nsid());
    return *ns == nullptr ? status::kInvalidField : status::kSuccess; // an id in the range that is not active
}

// PSDT 10b: MPTR names one descriptor, which may be a segment in turn.
Status parse_metadata(Controller &controller, const Port &port, Command &command, uint64_t bytes) {
    const Sqe &sqe = command.sqe;
    const uint32_t sgls = controller.config().sgls;
    if (sqe.psdt() == 2) {
        uint64_t descriptor[2];
        if (sqe.mptr() % 8 != 0)
            return status::kInvalidField;
        if (!port.read(sqe.mptr(), descriptor, sizeof descriptor))
            return status::kDataTransfer;
        const Direction direction = sqe.opcode() == io_op::kRead ? Direction::to_host : Direction::from_host;
        return parse_sgl(port, sgl_rules(sgls), descriptor[0], descriptor[1], bytes, direction,
                         status::kSglMetadataLength, command.metadata);
    }
    const bool any_byte = sqe.psdt() == 1 && (sgls >> 17 & 1) != 0;
    if (!any_byte && sqe.mptr() % 4 != 0)
        return status::kInvalidField;
    if (sqe.mptr() + bytes < bytes)
        return status::kDataTransfer; // past the last address; all ones would pass for a bit bucket
    append_segment(command.metadata, sqe.mptr(), bytes);
    return status::kSuccess;
}

Status parse_data(Controller &controller, const Port &port, Command &command, uint64_t bytes, Direction direction) {
    const Sqe &sqe = command.sqe;
    if (sqe.psdt() == 0)
        return parse_prp(port, controller.page_bytes(), sqe.prp1(), sqe.prp2(), bytes, command.data);
    return parse_sgl(port, sgl_rules(controller.config().sgls), sqe.quad(6), sqe.quad(8), bytes, direction,
                     status::kSglDataLength, command.data);
}

Status check_pointers(Controller &controller, const Sqe &sqe) {
    const uint32_t sgls = controller.config().sgls;
    if (sqe.psdt() == 3 || (sqe.psdt() != 0 && (sgls & 3) == 0) || (sqe.psdt() == 2 && (sgls >> 19 & 1) == 0))
        return status::kInvalidField;
    return status::kSuccess;
}

// Moves blocks between a region that lies in this process and the host, in the namespace's format.
template <typename Move>
bool each_block(const Namespace &ns, bool stripped, uint64_t blocks, uint8_t *data, uint8_t *metadata, Cursor &data_at,
                Cursor &metadata_at, Move move) {
    if (!ns.metadata_inline() || stripped)
        return move(data_at, data, blocks << ns.lba_shift()) &&
               (ns.metadata_bytes() == 0 || stripped || move(metadata_at, metadata, blocks * ns.metadata_bytes()));
    for (uint64_t i = 0; i < blocks; ++i)
        if (!move(data_at, data + (i << ns.lba_shift()), ns.block_bytes()) ||
            !move(data_at, metadata + i * ns.metadata_bytes(), ns.metadata_bytes()))
            return false;
    return true;
}

class Runner {
  public:
    Runner(Controller &controller, IoContext &context, Command &command)
        : controller_(controller), context_(context), command_(command), ns_(*command.ns),
          protection_(*command.ns, command.sqe), data_at_(command.data), metadata_at_(command.metadata) {}

    Status read() {
        return each_chunk([this](uint64_t lba, uint64_t blocks) -> Status {
            uint8_t *data = nullptr;
            uint8_t *metadata = nullptr;
            if (const int error = load(lba, blocks, &data, &metadata); error != 0)
                return read_status(error);
            if (const Status bad = check(lba, blocks, data, metadata); bad != status::kSuccess)
                return bad;
            const auto move = [this](Cursor &at, uint8_t *from, uint64_t len) {
                command_.bytes_to_host += len;
                return at.to_host(context_.port, from, len);
            };
            return each_block(ns_, protection_.stripped(), blocks, data, metadata, data_at_, metadata_at_, move)
                       ? status::kSuccess
                       : status::kDataTransfer;
        });
    }

    Status write() {
        return guarded(command_.sqe.slba(), command_.sqe.blocks(), command_.sqe.fua(), [this] {
            return each_chunk([this](uint64_t lba, uint64_t blocks) -> Status {
                uint8_t *data = ns_.memory(Region::data);
                uint8_t *metadata = ns_.memory(Region::metadata);
                const bool direct = data != nullptr && !protection_.on_write();
                data = direct ? data + (lba << ns_.lba_shift()) : context_.data();
                metadata = direct ? metadata + lba * ns_.metadata_bytes() : context_.metadata();
                if (!fetch(blocks, data, metadata))
                    return status::kDataTransfer;
                command_.bytes_from_host +=
                    blocks * (ns_.block_bytes() + (protection_.stripped() ? 0 : ns_.metadata_bytes()));
                if (protection_.made_by_drive())
                    protection_.make(lba - command_.sqe.slba(), blocks, data, metadata);
                else if (const Status bad = check(lba, blocks, data, metadata); bad != status::kSuccess)
                    return bad;
                if (direct)
                    return status::kSuccess;
                int error = ns_.write(Region::data, lba << ns_.lba_shift(), data, blocks << ns_.lba_shift());
                if (error == 0 && ns_.metadata_bytes() != 0)
                    error = ns_.write(Region::metadata, lba * ns_.metadata_bytes(), metadata,
                                      blocks * ns_.metadata_bytes());
                return error == 0 ? status::kSuccess : write_status(error);
            });
        });
    }

    Status compare() {
        return each_chunk([this](uint64_t lba, uint64_t blocks) -> Status {
            uint8_t *data = nullptr;
            uint8_t *metadata = nullptr;
            if (const int error = load(lba, blocks, &data, &metadata); error != 0)
                return read_status(error);
            if (const Status bad = check(lba, blocks, data, metadata); bad != status::kSuccess)
                return bad;
            uint8_t *other = context_.other_data();
            uint8_t *other_metadata = context_.other_metadata();
            if (!fetch(blocks, other, other_metadata))
                return status::kDataTransfer;
            const bool same = std::memcmp(data, other, blocks << ns_.lba_shift()) == 0 &&
                              (ns_.metadata_bytes() == 0 || protection_.stripped() ||
                               std::memcmp(metadata, other_metadata, blocks * ns_.metadata_bytes()) == 0);
            return same ? status::kSuccess : status::kCompareFailure;
        });
    }

    Status verify() {
        return each_chunk([this](uint64_t lba, uint64_t blocks) -> Status {
            uint8_t *data = nullptr;
            uint8_t *metadata = nullptr;
            const int error = load(lba, blocks, &data, &metadata);
            return error == 0 ? check(lba, blocks, data, metadata) : read_status(error);
        });
    }

    Status write_zeroes() {
        const bool deallocate = (command_.sqe.dw[12] & kZeroesDeallocate) != 0;
        return guarded(command_.sqe.slba(), command_.sqe.blocks(), command_.sqe.fua(),
                       [&] { return zero(command_.sqe.slba(), command_.sqe.blocks(), deallocate); });
    }

    Status manage_dataset() {
        const uint32_t ranges = (command_.sqe.dw[10] & 0xFF) + 1;
        uint8_t *list = context_.data();
        if (!data_at_.from_host(context_.port, list, ranges * kRangeBytes))
            return status::kDataTransfer;
        if ((command_.sqe.dw[11] & kDsmDeallocate) == 0)
            return status::kSuccess; // hints
        struct Range {
            uint32_t attributes;
            uint32_t blocks;
            uint64_t slba;
        };
        static_assert(sizeof(Range) == kRangeBytes);
        const auto at = [list](uint32_t i) {
            Range range{};
            std::memcpy(&range, list + i * kRangeBytes, sizeof range);
            return range;
        };
        for (uint32_t i = 0; i < ranges; ++i)
            if (at(i).slba > ns_.blocks() || at(i).blocks > ns_.blocks() - at(i).slba)
                return status::kLbaRange;
        for (uint32_t i = 0; i < ranges; ++i) {
            const Range range = at(i);
            if (range.blocks == 0)
                continue;
            const Status bad =
                guarded(range.slba, range.blocks, false, [&] { return zero(range.slba, range.blocks, true); });
            if (bad != status::kSuccess)
                return bad;
        }
        return status::kSuccess;
    }

  private:
    // In one go where the namespace lies in memory; else as much as the context's buffers hold.
    template <typename Each> Status each_chunk(Each each) {
        const uint64_t buffer_blocks = IoContext::kDataBytes >> ns_.lba_shift();
        const bool whole = ns_.memory(Region::data) != nullptr && command_.sqe.opcode() != io_op::kCompare &&
                           (command_.sqe.opcode() != io_op::kWrite || !protection_.on_write());
        const uint64_t blocks = command_.sqe.blocks();
        for (uint64_t done = 0; done < blocks;) {
            const uint64_t count = whole ? blocks : std::min(blocks - done, buffer_blocks);
            if (const Status bad = each(command_.sqe.slba() + done, count); bad != status::kSuccess)
                return bad;
            done += count;
        }
        return status::kSuccess;
    }

    Status check(uint64_t lba, uint64_t blocks, const uint8_t *data, const uint8_t *metadata) const {
        return protection_.on_read() ? protection_.check(lba - command_.sqe.slba(), blocks, data, metadata)
                                     : status::kSuccess;
    }

    int load(uint64_t lba, uint64_t blocks, uint8_t **data, uint8_t **metadata) {
        if (ns_.memory(Region::data) != nullptr) {
            *data = ns_.memory(Region::data) + (lba << ns_.lba_shift());
            *metadata = ns_.memory(Region::metadata) + lba * ns_.metadata_bytes();
            return 0;
        }
        *data = context_.data();
        *metadata = context_.metadata();
        if (const int error = ns_.read(Region::data, lba << ns_.lba_shift(), *data, blocks << ns_.lba_shift());
            error != 0)
            return error;
        if (ns_.metadata_bytes() == 0)
            return 0;
        return ns_.read(Region::metadata, lba * ns_.metadata_bytes(), *metadata, blocks * ns_.metadata_bytes());
    }

    bool fetch(uint64_t blocks, uint8_t *data, uint8_t *metadata) {
        const auto move = [this](Cursor &at, uint8_t *to, uint64_t len) {
            return at.from_host(context_.port, to, len);
        };
        return each_block(ns_, protection_.stripped(), blocks, data, metadata, data_at_, metadata_at_, move);
    }

    Status zero(uint64_t lba, uint64_t blocks, bool deallocate) {
        int error = ns_.zero(Region::data, lba << ns_.lba_shift(), blocks << ns_.lba_shift(), deallocate);
        if (error == 0 && ns_.metadata_bytes() != 0)
            error = ns_.zero(Region::metadata, lba * ns_.metadata_bytes(), blocks * ns_.metadata_bytes(), deallocate);
        if (error == 0 && ns_.protection_type() != 0)
            error = protect_zeroes(lba, blocks);
        return error == 0 ? status::kSuccess : write_status(error);
    }

    // Zeroed blocks have protection information too: made where Write Zeroes asks for it, else such as no check
    // applies to. Not in the buffers of Dataset Management's ranges.
    int protect_zeroes(uint64_t lba, uint64_t blocks) {
        const bool make = command_.sqe.opcode() == io_op::kWriteZeroes && protection_.made_by_drive();
        std::memset(context_.other_data(), 0, ns_.block_bytes());
        for (uint64_t i = 0; i < blocks; ++i) {
            uint8_t *metadata = context_.other_metadata();
            std::memset(metadata, 0, ns_.metadata_bytes());
            if (make)
                protection_.make(lba + i - command_.sqe.slba(), 1, context_.other_data(), metadata);
            else
                protection_.clear(1, metadata);
            if (const int error =
                    ns_.write(Region::metadata, (lba + i) * ns_.metadata_bytes(), metadata, ns_.metadata_bytes());
                error != 0)
                return error;
        }
        return 0;
    }

    // Around everything that changes blocks: the volatile cache remembers what was durable; what is written through
    // (FUA, or the cache switched off) is durable when the command ends.
    template <typename Change> Status guarded(uint64_t lba, uint64_t blocks, bool fua, Change change) {
        WriteCache &cache = ns_.cache();
        if (cache.enabled())
            if (const int error = cache.before_write(ns_, lba, blocks); error != 0)
                return write_status(error);
        if (const Status bad = change(); bad != status::kSuccess)
            return bad;
        if (!fua && controller_.write_back())
            return status::kSuccess;
        if (cache.enabled()) {
            if (const int error = ns_.sync(); error != 0)
                return write_status(error);
            cache.settle(lba, blocks);
        } else if (fua) {
            if (const int error = ns_.sync(); error != 0)
                return write_status(error);
        }
        return status::kSuccess;
    }

    Controller &controller_;
    IoContext &context_;
    Command &command_;
    Namespace &ns_;
    const Protection protection_;
    Cursor data_at_;
    Cursor metadata_at_;
};

Status flush(Namespace &ns) {
    if (const int error = ns.sync(); error != 0)
        return write_status(error);
    ns.cache().settle_all();
    return status::kSuccess;
}

} // namespace

Status prepare_io(Controller &controller, const Port &port, Command &command) {
    const Sqe &sqe = command.sqe;
    const uint8_t opcode = sqe.opcode();
    if (!has_range(opcode) && opcode != io_op::kFlush && opcode != io_op::kDsm)
        return status::kInvalidOpcode;
    if (sqe.fuse() != 0)
        return status::kInvalidField;
    if (const Status bad = check_pointers(controller, sqe); bad != status::kSuccess)
        return bad;
    if (opcode == io_op::kFlush && sqe.nsid() == kBroadcast)
        return status::kSuccess;
    if (const Status bad = find_namespace(controller, sqe, &command.ns); bad != status::kSuccess)
        return bad;
    Namespace &ns = *command.ns;
    if (writes(opcode) && ns.read_only())
        return status::kWriteProtected;
    if (opcode == io_op::kFlush)
        return status::kSuccess;
    if (opcode == io_op::kDsm)
        return parse_data(controller, port, command, ((sqe.dw[10] & 0xFF) + 1) * kRangeBytes, Direction::from_host);
    if (opcode == io_op::kWrite && (sqe.dw[12] >> 20 & 0xF) != 0)
        return status::kInvalidField; // a directive type; there is none
    if (sqe.slba() >= ns.blocks() || sqe.blocks() > ns.blocks() - sqe.slba())
        return status::kLbaRange;
    const Protection protection(ns, sqe);
    if (const Status bad = protection.refuse(); bad != status::kSuccess)
        return bad;
    if (!has_data(opcode))
        return status::kSuccess;
    const bool stripped = protection.stripped();
    const uint64_t block = ns.block_bytes() + (ns.metadata_inline() && !stripped ? ns.metadata_bytes() : 0);
    const uint64_t bytes = sqe.blocks() * block;
    if (controller.transfer_limit() != 0 && bytes > controller.transfer_limit())
        return status::kInvalidField;
    const Direction direction = opcode == io_op::kRead ? Direction::to_host : Direction::from_host;
    if (const Status bad = parse_data(controller, port, command, bytes, direction); bad != status::kSuccess)
        return bad;
    return ns.metadata_separate() && !stripped
               ? parse_metadata(controller, port, command, sqe.blocks() * ns.metadata_bytes())
               : status::kSuccess;
}

Status run_io(Controller &controller, IoContext &context, Command &command) {
    if (command.ns == nullptr) { // flush of every namespace
        for (const auto &ns : controller.namespaces())
            if (const Status bad = flush(*ns); bad != status::kSuccess)
                return bad;
        return status::kSuccess;
    }
    Runner runner(controller, context, command);
    switch (command.sqe.opcode()) {
    case io_op::kFlush:
        return flush(*command.ns);
    case io_op::kRead:
        return runner.read();
    case io_op::kWrite:
        return runner.write();
    case io_op::kCompare:
        return runner.compare();
    case io_op::kVerify:
        return runner.verify();
    case io_op::kWriteZeroes:
        return runner.write_zeroes();
    case io_op::kDsm:
        return runner.manage_dataset();
    default:
        return status::kInvalidOpcode;
    }
}

} // namespace tutti::controller
